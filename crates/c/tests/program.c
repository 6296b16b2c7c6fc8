/* Every function of the library, with its errors. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wrinklefree.h"

#define HAS(string, part) \
  do { if (!strstr(string, part)) { fprintf(stderr, "%s:%d: no %s in %s\n", __FILE__, __LINE__, part, string); exit(1); } } while (0)

struct pieces { char text[4096]; int count, most; };

static int collect(const char *text, void *context) {
  struct pieces *pieces = context;
  strncat(pieces->text, text, sizeof pieces->text - strlen(pieces->text) - 1);
  return ++pieces->count == pieces->most;
}

static char *error;

/* Expects that `call` sets `error` to a message that contains `part`. */
#define FAILS(call, part) \
  do { error = NULL; assert(!(call) && error); HAS(error, part); wf_free(error); error = NULL; } while (0)

int main(void) {
  assert(strlen(wf_version()) > 0);
  FAILS(wf_open("no/such.gguf", NULL, &error), "no model at no/such.gguf");
  FAILS(wf_open(NULL, "{\"thread\": 1}", &error), "did you mean threads?");
  FAILS(wf_open(NULL, "[]", &error), "options are not a JSON object");
  FAILS(wf_open("\xff", NULL, &error), "model is not UTF-8");
  assert(!wf_open("no/such.gguf", NULL, NULL));

  wf_model *model = wf_open(NULL, "{\"threads\": 1}", &error);
  assert(model && !error);

  struct pieces all = {"", 0, 0};
  char *whole = wf_generate(model, "Once upon a time", "{\"max_tokens\": 16}", collect, &all, &error);
  assert(whole && !error);
  HAS(whole, "\"finish_reason\":\"length\"");
  printf("%s\n", whole);
  assert(all.count > 4);

  struct pieces some = {"", 0, 3};
  char *part = wf_generate(model, "Once upon a time", "{\"max_tokens\": 16}", collect, &some, &error);
  assert(part && some.count == 3 && !strncmp(some.text, all.text, strlen(some.text)));
  HAS(part, "\"finish_reason\":\"cancelled\"");

  const char *question = "[{\"role\": \"user\", \"content\": \"What is 7 plus 5?\"}]";
  char *answer = wf_chat(model, question, "{\"stop\": [\".\"]}", NULL, NULL, &error);
  assert(answer);
  HAS(answer, "\"text\":\"7 + 5 = 12\",");
  HAS(answer, "\"ids\":[26,");
  char *biased = wf_chat(model, question, "{\"logit_bias\": {\"26\": -100}}", NULL, NULL, &error);
  assert(biased && !strstr(biased, "\"ids\":[26,"));
  FAILS(wf_chat(model, "[{\"role\": \"wizard\"}]", NULL, NULL, NULL, &error), "messages[0].role");
  FAILS(wf_generate(model, "a", "{\"temperature\": 200}", NULL, NULL, &error), "must be between 0 and 100");
  FAILS(wf_generate(model, NULL, NULL, NULL, NULL, &error), "prompt is NULL");
  FAILS(wf_generate(NULL, "a", NULL, NULL, NULL, &error), "model is NULL");

  float vector[4] = {0, 0, 0, 7};
  size_t len = wf_embed(model, "A cat", NULL, vector, 3, &error);
  assert(len > 4 && !error && vector[0] != 0 && vector[3] == 7);
  assert(wf_embed(model, "A cat", NULL, NULL, 0, NULL) == len);
  FAILS(wf_embed(model, "A cat", "{\"pooling\": \"sum\"}", vector, 4, &error), "sum");

  wf_free(whole);
  wf_free(part);
  wf_free(answer);
  wf_free(biased);
  wf_free(NULL);
  wf_close(model);
  wf_close(NULL);
  return 0;
}
