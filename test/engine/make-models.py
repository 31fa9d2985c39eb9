"""Makes the models of the tests' engine: real files with random weights, so the text is gibberish and all else is real.

usage: make-models.py <folder>

chat.gguf   answers fast, and ends some answers before their limit
slow.gguf   generates some hundred tokens a second, and ends no answer before its limit
tools.gguf  begins a tool call in most answers
late.gguf   takes seconds to load: its vocabulary is large
embed.gguf  makes vectors of texts
rank.gguf   ranks documents
"""

import sys
from pathlib import Path

import gguf
import numpy as np

random = np.random.default_rng(1)

WORDS = (
    "a and are be can do for from has have he her his how if in is it its just know like more my name new no not of on one or our out said "
    "see she some than that the their them then there they this time to two up use was we what when which who will with word would you "
    "city cloud count day false hello house item key language light list model number object people place queue rain result river server "
    "stone string table token true tree value water weather winter"
).split()
HEAD = 32  # the width of a head of attention, all of which share one key: a long context then needs little memory
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
SPACE = "\u2581"  # how this kind of tokenizer writes a space

TEMPLATE = """{%- if tools %}<|turn|>system
{%- if messages[0].role == 'system' %}{{ '\\n' + messages[0].content }}{% endif %}
Each line is a function that you can call:
<tools>
{%- for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}
</tools>
Call one with its name and its arguments as JSON:
<tool_call>{"name": "<name>", "arguments": <arguments>}</tool_call><|end|>
{% elif messages[0].role == 'system' %}<|turn|>system
{{ messages[0].content }}<|end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}<|turn|>{{ message.role + '\\n' + message.content }}<|end|>
{% elif message.role == 'assistant' %}<|turn|>assistant
{%- if message.content %}{{ '\\n' + message.content }}{% endif %}
{%- for call in message.tool_calls %}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}<|end|>
{% elif message.role == 'tool' %}<|turn|>user
<tool_response>
{{ message.content }}
</tool_response><|end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|turn|>assistant
{% endif %}"""


class Vocabulary:
    """Pieces of words that grow letter by letter, all bytes, and a few tokens that mark turns and tool calls."""

    def __init__(self, extra: int = 0):
        self.entries: list[tuple[str, int]] = [("<unk>", UNKNOWN), ("<|start|>", CONTROL), ("<|end|>", CONTROL), ("<|turn|>", CONTROL)]
        self.end = 2
        self.entries += [("<tool_call>", USER_DEFINED), ("</tool_call>", USER_DEFINED)]
        self.call = 4
        self.entries += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
        self.first_piece = len(self.entries)
        pieces = {SPACE: None} | {chr(code): None for code in range(33, 127)}
        for word in WORDS:
            for text in (SPACE + word, word):
                pieces |= {text[:length]: None for length in range(2, len(text) + 1)}
        self.entries += [(piece, NORMAL) for piece in pieces]
        self.last_piece = len(self.entries)
        self.entries += [(f"{SPACE}{number:07d}", NORMAL) for number in range(extra)]

    def write(self, file: gguf.GGUFWriter) -> None:
        file.add_tokenizer_model("llama")
        file.add_tokenizer_pre("default")
        file.add_token_list([text for text, _ in self.entries])
        # The longest piece wins.
        file.add_token_scores([float(len(text)) if kind == NORMAL else 0.0 for text, kind in self.entries])
        file.add_token_types([kind for _, kind in self.entries])
        file.add_bos_token_id(1)
        file.add_eos_token_id(self.end)
        file.add_sep_token_id(self.end)
        file.add_unk_token_id(0)
        file.add_pad_token_id(0)
        file.add_add_space_prefix(False)  # else the reader of tool calls does not find the prompt that it expects
        file.add_vocab_size(len(self.entries))


def weights(*shape: int, scale: float) -> np.ndarray:
    return random.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def begin(path: Path, kind: str, *, width: int, layers: int, heads: int, inner: int, context: int) -> gguf.GGUFWriter:
    file = gguf.GGUFWriter(path, kind)
    file.add_name(path.stem)
    file.add_file_type(0)
    file.add_context_length(context)
    file.add_embedding_length(width)
    file.add_block_count(layers)
    file.add_head_count(heads)
    file.add_feed_forward_length(inner)
    return file


def end(file: gguf.GGUFWriter) -> None:
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def generating(path: Path, words: Vocabulary, *, ends: float, calls: float = 0.0, width: int = 64, layers: int = 1, inner: int = 128) -> None:
    """`ends` and `calls` say how likely the end and a tool call are, where 1 is as likely as a word."""
    file = begin(path, "llama", width=width, layers=layers, heads=width // HEAD, inner=inner, context=32768)
    file.add_head_count_kv(1)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(HEAD)
    words.write(file)
    file.add_add_bos_token(False)
    file.add_chat_template(TEMPLATE)
    likely = np.zeros((len(words.entries), 1), dtype=np.float32)
    likely[words.first_piece : words.last_piece] = 1  # readable text only
    likely[words.end] = ends
    likely[words.call] = calls
    file.add_tensor("token_embd.weight", weights(len(words.entries), width, scale=1))
    file.add_tensor("output.weight", weights(len(words.entries), width, scale=2.5 / width**0.5) * likely)
    file.add_tensor("output_norm.weight", np.ones(width, dtype=np.float32))
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            file.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, dtype=np.float32))
        square, narrow = (width, width), (HEAD, width)
        shapes = {"attn_q": square, "attn_k": narrow, "attn_v": narrow, "attn_output": square}
        shapes |= {"ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
        for name, shape in shapes.items():
            file.add_tensor(f"blk.{layer}.{name}.weight", weights(*shape, scale=1 / width**0.5))
    end(file)


def pooling(path: Path, words: Vocabulary, pool: gguf.PoolingType, *, width: int = 64, layers: int = 1, inner: int = 128, context: int = 512) -> None:
    file = begin(path, "bert", width=width, layers=layers, heads=width // HEAD, inner=inner, context=context)
    file.add_layer_norm_eps(1e-12)
    file.add_causal_attention(False)
    file.add_pooling_type(pool)
    file.add_token_type_count(2)
    words.write(file)
    file.add_add_bos_token(True)
    file.add_tensor("token_embd.weight", weights(len(words.entries), width, scale=1))
    file.add_tensor("token_types.weight", weights(2, width, scale=0.1))
    file.add_tensor("position_embd.weight", weights(context, width, scale=0.1))
    norms = ["token_embd_norm"] + [f"blk.{layer}.{name}" for layer in range(layers) for name in ("attn_output_norm", "layer_output_norm")]
    for name in norms:
        file.add_tensor(f"{name}.weight", np.ones(width, dtype=np.float32))
        file.add_tensor(f"{name}.bias", np.zeros(width, dtype=np.float32))
    linear = {f"attn_{name}": (width, width) for name in ("q", "k", "v", "output")} | {"ffn_up": (inner, width), "ffn_down": (width, inner)}
    matrices = {f"blk.{layer}.{name}": shape for layer in range(layers) for name, shape in linear.items()}
    if pool == gguf.PoolingType.RANK:
        matrices |= {"cls": (width, width), "cls.output": (1, width)}
    for name, shape in matrices.items():
        file.add_tensor(f"{name}.weight", weights(*shape, scale=1 / width**0.5))
        file.add_tensor(f"{name}.bias", np.zeros(shape[0], dtype=np.float32))
    end(file)


def main(folder: Path) -> None:
    words = Vocabulary()
    generating(folder / "chat.gguf", words, ends=1.4)
    generating(folder / "slow.gguf", words, ends=0, width=512, layers=8, inner=1536)
    generating(folder / "tools.gguf", words, ends=1.4, calls=2.5)
    generating(folder / "late.gguf", Vocabulary(extra=500_000), ends=0, width=32)
    pooling(folder / "embed.gguf", words, gguf.PoolingType.MEAN)
    pooling(folder / "rank.gguf", words, gguf.PoolingType.RANK)


main(Path(sys.argv[1]))
