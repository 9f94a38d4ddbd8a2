"""What a person looks at: the live view, the closing report, the JSON documents."""
