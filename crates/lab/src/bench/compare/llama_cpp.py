"""Times llama-cpp-python on one model file, for `wf bench --compare`.

Says its version. Then every line of standard input is answered by a line of JSON with the seconds it
took: `load`, the length of the context and a path; `decode` or `prefill`, how many tokens, and how
many threads.
"""

import json
import sys
import time


def answer(**words):
    print(json.dumps(words), flush=True)


def main():
    import llama_cpp

    answer(version=llama_cpp.__version__)
    for line in sys.stdin:
        order, count, rest = line.rstrip("\n").split(" ", 2)
        start = time.perf_counter()
        if order == "load":
            model = llama_cpp.Llama(model_path=rest, n_ctx=int(count), verbose=False)
        else:
            tokens, threads = int(count), int(rest)
            llama_cpp.llama_set_n_threads(model.ctx, threads, threads)
            model.reset()
            chunk = 1 if order == "decode" else tokens
            for first in range(0, tokens, chunk):
                # Which tokens they are makes no difference to the work.
                model.eval([1 + (first + place) % 100 for place in range(chunk)])
            llama_cpp.llama_synchronize(model.ctx)
        answer(seconds=time.perf_counter() - start)


try:
    main()
except ModuleNotFoundError as error:
    answer(missing=error.name)
except Exception as error:
    answer(error=f"{type(error).__name__}: {error}")
