import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, final, overload

from typing_extensions import Self, TypeAlias, Unpack

from ._options import EmbeddingOptions, Sampling, Settings

__all__ = ["LLM", "Cancel", "Completion", "Stream", "TokenLogprob", "option_names"]

_Ids: TypeAlias = list[int] | tuple[int, ...]
_Prompt: TypeAlias = str | _Ids
_Prompts: TypeAlias = list[str] | tuple[str, ...] | list[list[int]] | list[_Prompt]
_Messages: TypeAlias = list[dict[str, Any]] | list[dict[str, str]]
_Conversations: TypeAlias = list[list[dict[str, Any]]] | list[list[dict[str, str]]]

_FinishReason: TypeAlias = Literal["stop", "length", "grammar_dead_end"]

@final
class Cancel:
    """Cancels requests from another thread."""

    def __new__(cls) -> Self: ...
    def cancel(self) -> None:
        """Ends every request that was given this object; those that start later end at once."""

    @property
    def cancelled(self) -> bool:
        """True if ``cancel`` was called."""

@final
class TokenLogprob:
    """A token and its log probability."""

    @property
    def id(self) -> int: ...
    @property
    def text(self) -> str:
        """Text of the token. A part of a character is shown as U+FFFD."""

    @property
    def logprob(self) -> float:
        """Natural logarithm of the token's probability by the model's own logits."""

    @property
    def top(self) -> list[tuple[int, float]]:
        """Most probable tokens of the position and their log probabilities, highest first."""

@final
class Completion:
    """A completion."""

    @property
    def text(self) -> str:
        """Text, without end tokens and stop strings."""

    @property
    def reasoning(self) -> str:
        """Thinking before the text. Empty unless the chat template declares thinking."""

    @property
    def ids(self) -> list[int]:
        """Token ids, an end token included."""

    @property
    def prompt_ids(self) -> list[int]: ...
    @property
    def finish_reason(self) -> _FinishReason: ...
    @property
    def seed(self) -> int:
        """Seed of the random numbers: the same seed gives the same completion."""

    @property
    def cached_tokens(self) -> int:
        """Number of prompt tokens that were cached."""

    @property
    def logprobs(self) -> list[TokenLogprob] | None:
        """Log probabilities of the tokens, if requested."""

    @property
    def prompt_seconds(self) -> float:
        """Seconds until the first token, from the time of the call."""

    @property
    def decode_seconds(self) -> float:
        """Seconds from the first to the last token."""

@final
class Stream(Iterator[str]):
    """Text of a completion, piece by piece. Closing it cancels the rest."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> str: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    def close(self) -> None:
        """Cancels the rest. A thread that waits for the next piece gets none."""

    @property
    def text(self) -> str:
        """Text so far."""

    @property
    def ids(self) -> list[int]:
        """Token ids so far, an end token included."""

    @property
    def prompt_ids(self) -> list[int]: ...
    @property
    def seed(self) -> int: ...
    @property
    def finish_reason(self) -> _FinishReason | None:
        """Reason of the end, if it was reached."""

@final
class LLM:
    """A model in this process.

    ``model`` is a GGUF file, an SGLBITNT ``.bin``, a ``.safetensors`` file, a Hugging Face directory, a model on the
    Hugging Face Hub (``hf:owner/repo[@revision][:file]``) or a short name of ``wf models``. The default is the
    built-in demo model. Settings are the flags of ``wf run`` that are about the model, with underscores.
    """

    def __new__(cls, model: str | os.PathLike[str] | None = None, **settings: Unpack[Settings]) -> Self: ...
    @overload
    def generate(
        self,
        prompt: _Prompt,
        *,
        specials: bool = False,
        logprobs: int | None = None,
        cancel: Cancel | None = None,
        **sampling: Unpack[Sampling],
    ) -> Completion: ...
    @overload
    def generate(
        self,
        prompt: _Prompts,
        *,
        specials: bool = False,
        logprobs: int | None = None,
        cancel: Cancel | None = None,
        **sampling: Unpack[Sampling],
    ) -> list[Completion]:
        """Continues prompts, without the chat template, as ``wf run --raw``. A list of prompts runs together.

        ``specials`` parses special tokens such as ``<|eot_id|>`` in texts. ``logprobs`` returns the log probability of
        each token, and of so many alternatives.
        """

    @overload
    def chat(
        self,
        messages: _Messages,
        *,
        logprobs: int | None = None,
        cancel: Cancel | None = None,
        **sampling: Unpack[Sampling],
    ) -> Completion: ...
    @overload
    def chat(
        self,
        messages: _Conversations,
        *,
        logprobs: int | None = None,
        cancel: Cancel | None = None,
        **sampling: Unpack[Sampling],
    ) -> list[Completion]:
        """Answers a conversation, as ``wf run``. A list of conversations runs together."""

    def stream(
        self,
        prompt: _Prompt | _Messages,
        *,
        specials: bool = False,
        cancel: Cancel | None = None,
        **sampling: Unpack[Sampling],
    ) -> Stream:
        """Starts a completion of a prompt or a conversation, and returns an iterator over its text."""

    @overload
    def embed(
        self, texts: str, *, cancel: Cancel | None = None, **options: Unpack[EmbeddingOptions]
    ) -> list[float]: ...
    @overload
    def embed(
        self,
        texts: list[str] | tuple[str, ...],
        *,
        cancel: Cancel | None = None,
        **options: Unpack[EmbeddingOptions],
    ) -> list[list[float]]:
        """Returns a vector of length 1 for each text."""

    @overload
    def logprobs(
        self,
        prompt: _Prompt | _Messages,
        completion: _Prompt,
        *,
        top: int = 0,
        cancel: Cancel | None = None,
    ) -> list[TokenLogprob]: ...
    @overload
    def logprobs(
        self,
        prompt: _Prompts | _Conversations,
        completion: _Prompts,
        *,
        top: int = 0,
        cancel: Cancel | None = None,
    ) -> list[list[TokenLogprob]]:
        """Returns the log probability of each token of a completion that follows a prompt or a conversation."""

    def tokenize(self, text: str, *, specials: bool = False) -> list[int]:
        """Returns the token ids of a text, without begin and end tokens."""

    def detokenize(self, ids: Sequence[int]) -> str:
        """Returns the text of token ids, special tokens included."""

    def close(self) -> None:
        """Frees the model. Streams that are running finish."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: type[BaseException] | BaseException | TracebackType | None) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def context_len(self) -> int:
        """Maximum number of tokens of prompt and completion together."""

    @property
    def embedding_len(self) -> int:
        """Number of dimensions of an embedding."""

    @property
    def vocab_len(self) -> int:
        """Number of tokens of the vocabulary."""

def option_names() -> list[list[str]]:
    """Returns the names of the settings of ``LLM``, and of the options of a completion and of an embedding."""
