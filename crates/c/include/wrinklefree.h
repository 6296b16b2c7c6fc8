/* Ternary language models in the process of the caller.
 *
 * Strings are UTF-8 and end with NUL. Options are a JSON object with the names of the command line's flags, such as
 * {"threads": 4, "kv": "int8"} for wf_open and {"max_tokens": 64, "temperature": 0.7, "stop": ["\n"]} for completions;
 * NULL stands for no options. Defaults, checks and messages are those of `wf run`.
 *
 * A function that fails returns NULL or 0 and, unless `error` is NULL, sets *error to a message, which the caller frees with
 * wf_free. A model can be used by several threads at once; requests of all of them are computed together.
 */
#ifndef WRINKLEFREE_H
#define WRINKLEFREE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_model wf_model;

/* Takes a piece of the answer as soon as it is final. A result other than 0 cancels the rest. */
typedef int (*wf_on_text)(const char *text, void *context);

/* Returns the version of the library. The string is never freed. */
const char *wf_version(void);

/* Opens a model: a path, a reference such as "hf:owner/repo", a short name, or NULL for the built-in demo. */
wf_model *wf_open(const char *model, const char *options, char **error);

/* Closes a model. Nothing else may use it any more. NULL is allowed. */
void wf_close(wf_model *model);

/* Continues a prompt, without the chat template. Returns a JSON object with "text", "reasoning", "ids", "prompt_ids",
 * "finish_reason" ("stop", "length", "grammar_dead_end" or "cancelled"), "seed" and "cached_tokens". `on_text` may be NULL. */
char *wf_generate(const wf_model *model, const char *prompt, const char *options, wf_on_text on_text, void *context,
                  char **error);

/* Answers a conversation: a JSON array of messages as in OpenAI's chat API. Otherwise as wf_generate. */
char *wf_chat(const wf_model *model, const char *messages, const char *options, wf_on_text on_text, void *context,
              char **error);

/* Embeds a text. Writes the first `capacity` elements of the vector to `vector`, and returns the number of all its elements. */
size_t wf_embed(const wf_model *model, const char *text, const char *options, float *vector, size_t capacity,
                char **error);

/* Frees a string that another function returned. NULL is allowed. */
void wf_free(char *string);

#ifdef __cplusplus
}
#endif

#endif
