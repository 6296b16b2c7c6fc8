"""Times llama-cpp-python on one model file, for `wf bench --compare`.

Arguments are the file and the length of the context. Every line of standard input is a case, `decode`
or `prefill`, how many tokens, and how many threads; the answer is a line of JSON with its seconds.
"""

import json
import sys
import time


def answer(**words):
    print(json.dumps(words), flush=True)


def main():
    import llama_cpp

    path, context = sys.argv[1], int(sys.argv[2])
    model = llama_cpp.Llama(model_path=path, n_ctx=context, verbose=False)
    answer(version=llama_cpp.__version__)
    for line in sys.stdin:
        case, tokens, threads = line.split()
        tokens, threads = int(tokens), int(threads)
        llama_cpp.llama_set_n_threads(model.ctx, threads, threads)
        chunk = 1 if case == "decode" else tokens
        model.reset()
        start = time.perf_counter()
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
