"""Everything that touches llama.cpp: no other folder imports llama_cpp or ctypes."""
