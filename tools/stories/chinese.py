"""Chinese stories for children, of the same plot as the English ones and shorter."""

import random

from stories.grammar import Grammar, Outline, zipf

KINDS = "小狐狸 小兔子 小熊 小猫 小老鼠 小鸭子 小松鼠 小刺猬 小狗 小羊 小鹿 小青蛙 小象 小猴子 小鸟 小企鹅".split()
NAMES = "米米 豆豆 乐乐 小雨 朵朵 阿宝 圆圆 果果 叮当 毛毛 小白 丁丁 安安 小满 糖糖 阿福".split()

_WISHES = [
    ("看一看大海", "路走到了头，大海就在眼前，[又宽又蓝|闪着银光|比什么都大]", "大海"),
    ("找到一个朋友", "{name}看着{friend}，忽然明白了：{he}想要的朋友[就在身边|早就来了]", "朋友"),
    ("学会唱歌", "{name}张开嘴，歌声像[铃铛|泉水|月光]一样好听", "唱歌"),
    ("摸一摸星星", "一颗小星星[落|滑|飞]了下来，停在{he}的[手心|帽子|肩膀]上", "星星"),
    ("种一个花园", "土里长出了绿色的小芽，后来开满了[玫瑰|向日葵|小黄花]", "花园"),
    ("看一场雪", "第一片雪花飘了下来，不久整个世界都白了", "雪"),
    ("当一个勇敢的孩子", "{name}发现自己一点也不怕了", "勇敢"),
    ("烤一个最好吃的蛋糕", "蛋糕烤得又高又香，大家都想再吃一块", "蛋糕"),
    ("划一条小船", "小船滑进了水里，{name}用力划起桨来", "小船"),
    ("跟月亮说说话", "月亮来到窗前，轻轻叫出了{he}的名字", "月亮"),
]

_MISHAPS = [
    ("一阵大风把{he}的[帽子|地图|围巾]吹走了", "{friend}爬到树上，把它[拿|找|捡]了回来"),
    ("{name}一不小心掉进了[河里|泥坑里|深洞里]", "{friend}伸出一根长长的[树枝|绳子|竹竿]，把{he}拉了上来"),
    ("它们在[大雾|森林|草丛]里迷了路", "{friend}听着[小河|钟声|鸟叫]的声音，找到了回去的路"),
    ("下起了大雨", "{friend}找到一个[山洞|草屋|树洞]，它们在里面讲[笑话|故事|谜语]，一直等到太阳出来"),
    ("小桥断了", "{friend}搬来一块[木板|大石头|木头]，它们一步一步走了过去"),
    ("篮子里的吃的都不见了", "{friend}知道哪里有[野果|坚果|苹果]，它们俩都吃饱了"),
    ("天黑了，什么也看不见", "{friend}叫来了萤火虫，一路都亮了起来"),
    ("门锁上了", "{friend}从[窗户|墙洞|门缝]钻进去，把门打开了"),
]

_RULES = {
    "opening": [
        "从前，在{place}，住着一只{adjective}{kind}，名字叫{name}。",
        "很久很久以前，有一只{adjective}{kind}叫{name}，住在{place}。",
        "{name}是一只{adjective}{kind}，家在{place}。",
        "在{place}，大家都认识{name}，一只{adjective}{kind}。",
    ],
    "place": [
        "森林里", "山脚下", "小河边", "一个小村子里", "大树下", "海边", "一座小岛上", "花园里", "山坡上", "磨坊旁边", "月亮湖边", "石桥旁边",
    ],
    "adjective": ["可爱的", "勇敢的", "好奇的", "害羞的", "聪明的", "快乐的", "安静的", "善良的", "爱笑的", "贪睡的", "细心的", "孤单的"],
    "habit": ["数云朵", "捡石头", "看书", "爬树", "听风声", "画画", "追蝴蝶", "吹口哨", "在雨里跳舞", "种种子", "讲笑话", "看星星", "编歌", "喝热牛奶"],
    "habits": [
        "{he}每天都喜欢<habit>和<habit>。",
        "{name}喜欢<habit>，但是最喜欢<habit>。",
        "[早上|晴天|夏天]{he}<habit>，[晚上|雨天|冬天]{he}<habit>。",
        "谁也没有{name}那么会<habit>。",
    ],
    "wishing": [
        "可是{name}有一个[小小的|秘密的|大大的]愿望：{he}想{wish}。",
        "{name}最想做的事情，就是{wish}。",
        "每天睡觉以前，{name}都[悄悄|认真]地许愿：“我想{wish}。”",
        "有一天，{name}说：“我要{wish}！”大家都[笑了|点点头|摇摇头]。",
    ],
    "look": ["小小的", "旧旧的", "红色的", "圆圆的", "蓝色的", "大大的", "漂亮的", "绿色的", "新新的", "奇怪的", "金色的", "彩色的"],
    "sight": ["安静的", "古老的", "绿色的", "弯弯的", "神秘的", "高高的", "雾中的", "金色的", "小小的", "月光下的"],
    "taste": ["香香的", "甜甜的", "热热的", "新鲜的", "软软的", "好吃的"],
    "gait": ["慢慢地", "高兴地", "轻轻地", "勇敢地", "悄悄地", "快快地", "小心地"],
    "how": ["高兴地", "轻轻地", "小声地", "认真地", "笑着", "温柔地", "大声地", "慢慢地"],
    "dish": ["饺子", "鸡蛋饼", "苹果派", "蜂蜜饼", "汤圆", "红薯", "草莓", "包子", "月饼", "面条"],
    "day": ["早晨", "下午", "晚上", "春天的早晨", "秋天的下午", "冬天的早晨", "星期天"],
    "weather": ["晴朗的", "有雾的", "有风的", "下雨的", "温暖的", "金色的", "寒冷的"],
    "leaving": [
        "一个<weather><day>，{name}带上<thing>和<thing>出发了。",
        "于是，在一个<weather><day>，{he}背着<thing>，[走|跑|跳]出了家门。",
        "“就是今天！”一个<weather><day>，{name}拿起<thing>，[关上|推开]了门。",
    ],
    "thing": [
        "一块<taste>面包",
        "一盏<look>灯",
        "一个<look>苹果",
        "一根<look>绳子",
        "一罐<taste>蜂蜜",
        "一张<look>地图",
        "一把<look>雨伞",
        "一个<look>铃铛",
        "一袋<taste>坚果",
        "一条<look>毯子",
    ],
    "way": [
        "{he}<gait>走过<landmark>，又走过<landmark>。",
        "路边先是<landmark>，然后是<landmark>。",
        "走了[很久|一会儿|一个小时]，{he}来到<landmark>，那里[很安静|开满了花|香香的]。",
    ],
    "landmark": [
        "一座<sight>石桥",
        "一片<sight>松树",
        "一口<sight>老井",
        "一座<sight>小山",
        "一片<sight>花海",
        "一个<sight>村子",
        "一条<sight>小溪",
        "一个<sight>苹果园",
        "一面<sight>旧墙",
        "一个<sight>荷花池",
    ],
    "meeting": [
        "在那里，{he}遇见了{friend_adjective}{friend_kind}{friend}，{friend}正在<doing>。",
        "一只{friend_adjective}{friend_kind}坐在[石头上|大树下|小路边]<doing>，{friend_he}叫{friend}。",
        "忽然，{he}听见了[歌声|笑声|哭声]。原来是{friend_kind}{friend}在<doing>。",
    ],
    "doing": [
        "<gait>吃梨",
        "<gait>补网",
        "数蚂蚁",
        "找<look>鞋子",
        "吹<look>笛子",
        "看信",
        "洗<look>袜子",
        "<gait>摘野果",
        "扫树叶",
        "等下雨",
        "搭<look>石头",
    ],
    "question": [
        "“你要去哪里呀？”{friend}<how>问。",
        "“你的<look>包里有什么？”{friend}<how>问。",
        "“你看起来[很累|很高兴|很着急|很冷]。”{friend}<how>说。",
    ],
    "answer": [
        "“我想{wish}。”{name}<how>说，“你[愿意一起去|认识路|能帮帮我]吗？”",
        "{name}<how>说：“我要{wish}！”",
        "{name}<how>把自己的愿望告诉了{friend}。",
    ],
    "joining": [
        "“那我们一起去吧！”{friend}<how>说。",
        "{friend}想了想，<how>说：“[好主意|真有趣|太好了]，走吧！”",
        "{friend}[点点头|笑了|跳起来]：“跟我来！”",
        "它们分着吃了<food>，成了朋友。",
    ],
    "trouble": ["可是[忽然|不久|这时候]，{mishap}。", "它们没走多远，{mishap}。", "一切都很顺利，直到{mishap}。"],
    "feeling": ["“哎呀！”{name}[叫|哭|喊]道，“[怎么办呢|都怪我|我不能{wish}了]！”", "{name}[难过|害怕|累]得想[回家|哭|躲起来]。", "“别[怕|担心|难过]，”{friend}说，“[我有办法|让我想想]。”"],
    "help": ["这时，{cure}。", "幸好，{cure}。", "你猜怎么样？{cure}。"],
    "thanks": [
        "“谢谢你！”{name}<how>说。",
        "{name}<gait>抱住{friend}：“你是最好的朋友。”",
        "{name}<how>送给{friend}<thing>。",
        "它们[笑着|唱着歌|手拉手]走过<landmark>。",
    ],
    "arrival": ["[天黑了|月亮升起来了|星星出来了]，{granted}。", "[第二天晚上|第三天晚上|那天夜里]，{granted}。", "就在那时，{granted}。", "{name}闭上眼睛，数到[三|十|七]，再睁开。{granted}。"],
    "joy": ["“[看呀|太好了|是真的]！”{name}[喊|说|叫]着，高兴得跳了起来。", "{name}高兴得说不出话来。", "{friend}[笑了|拍起手来]：“你的愿望实现了。”"],
    "feast": [
        "那天晚上，它们[在火边|在窗前|在河边]吃了<food>和<food>。",
        "回家的路上，它们一边吃<food>，一边[唱歌|讲故事|数星星]。",
        "{friend}<how>做了<food>、<food>和<food>。",
    ],
    "food": [
        "<taste><dish>",
    ],
    "moral": ["从那以后，{name}和{friend}[再也没有分开|成了最好的朋友|天天在一起]。", "{name}明白了：[有朋友，路就不远|小个子也能做大事|愿望要和朋友一起实现]。", "如果你到{place}去，也许会[看见|遇见]它们。"],
}  # fmt: skip

_ORDER = [
    "<opening>",
    "<habits>",
    "<wishing>",
    "¶<leaving>",
    "<way>",
    "<meeting>",
    "<question>",
    "<answer>",
    "<joining>",
    "¶<trouble>",
    "<feeling>",
    "<help>",
    "<thanks>",
    "¶<arrival>",
    "<joy>",
    "<feast>",
    "<moral>",
    "¶完。",
]
_REQUESTS = [
    "讲一个故事[。||吧。]", "讲一个{kind}的故事[。||吧。]", "给我讲一个关于{topic}的故事[。|]", "{kind}{name}的故事", "我想听{kind}和{friend_kind}的故事[。|]",
    "再讲一个[。||吧！]", "请讲一个睡前故事[。|]", "讲一个关于{adjective}{kind}的故事[。|]",
]  # fmt: skip

WHOLE = Outline(
    _REQUESTS,
    {"<habits>": 0.9, "<way>": 0.7, "<question>": 0.7, "<feeling>": 0.8, "<joy>": 0.8, "<feast>": 0.8},
    usual=1.0,
    pick=zipf,
)
BRIEF = Outline(
    _REQUESTS,
    {
        "<opening>": 1.0,
        "<wishing>": 1.0,
        "<meeting>": 1.0,
        "<answer>": 0.6,
        "<thanks>": 0.5,
        "¶<arrival>": 0.6,
        "<joy>": 0.4,
        "¶完。": 1.0,
    },
)
WISH = Outline(
    [request for request in _REQUESTS if "{topic}" in request],
    {"<wishing>": 1.0, "<answer>": 0.6, "¶<arrival>": 1.0, "¶完。": 1.0},
)

_GRAMMAR = Grammar(_RULES)


def story(rng: random.Random, outline: Outline = WHOLE) -> tuple[str, str]:
    """A request, and the story that answers it.

    Args:
        rng: Decides.
        outline: What is told.
    """
    used: set[str] = set()
    pick = outline.pick
    kind, friend_kind = pick(rng, KINDS), pick(rng, KINDS[1:])
    name, friend = pick(rng, NAMES[::2]), pick(rng, NAMES[1::2])
    if friend_kind == kind:
        friend_kind = KINDS[0]
    facts = {"name": name, "kind": kind, "friend": friend, "friend_kind": friend_kind, "he": "它", "friend_he": "它"}
    wish, granted, facts["topic"] = pick(rng, _WISHES)
    mishap, cure = zipf(rng, _MISHAPS)
    for fact, text in (
        ("place", "<place>"), ("adjective", "<adjective>"), ("friend_adjective", "<adjective>"), ("wish", wish),
        ("granted", granted), ("mishap", mishap), ("cure", cure),
    ):  # fmt: skip
        facts[fact] = _GRAMMAR.expand(text, facts, rng, used)
    text = _GRAMMAR.expand("".join(outline.some(rng, _ORDER)), facts, rng, used)
    return _GRAMMAR.expand(pick(rng, outline.requests), facts, rng, used), text.replace("¶", "\n")
