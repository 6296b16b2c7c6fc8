/** Files of the next message. */
import { computed, signal } from "@preact/signals";
import { send } from "../api/client.ts";
import { readText } from "../browser/text.ts";
import { type TextFile, cleanName, fenced } from "../history/files.ts";
import { report } from "./connection.ts";
import { modelFields, props } from "./models.ts";
import { notify } from "./notice.ts";

const MAX_FILES = 10;

export const draftFiles = signal<TextFile[]>([]);

/** Says why the files cannot be sent, or nothing. */
export const filesProblem = computed(() => {
  const limit =
    props.value?.attention?.max_tokens ?? props.value?.default_generation_settings.n_ctx;
  const tokens = draftFiles.value.reduce((sum, file) => sum + (file.tokens ?? 0), 0);
  if (!limit || tokens < limit) return "";
  const [need, have] = [tokens, limit].map((number) => number.toLocaleString("en"));
  return `The files have ${need} tokens; the context of the model has ${have}.`;
});

/** Adds files to the next message and counts their tokens. */
export async function addFiles(chosen: Iterable<File>): Promise<void> {
  const problems: string[] = [];
  // A list of dropped files is emptied when its event ends.
  for (const file of [...chosen]) {
    const name = cleanName(file.name);
    try {
      if (draftFiles.peek().length >= MAX_FILES) throw new Error(`more than ${MAX_FILES} files`);
      const added: TextFile = { name, text: await readText(file) };
      draftFiles.value = [...draftFiles.peek(), added];
      void count(added);
    } catch (error) {
      problems.push(`${name}: ${(error as Error).message}.`);
    }
  }
  if (problems.length) notify(problems.join(" "));
}

export function removeFile(file: TextFile): void {
  draftFiles.value = draftFiles.peek().filter((other) => other !== file);
}

/** Returns the files of the next message and begins another. */
export function takeFiles(): TextFile[] {
  const files = draftFiles.peek();
  draftFiles.value = [];
  return files;
}

async function count(file: TextFile): Promise<void> {
  try {
    const response = await send("/tokenize", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        ...modelFields(),
        prompt: fenced(file),
        add_special_tokens: false,
        parse_special: false,
      }),
    });
    const { count: tokens } = (await response.json()) as { count: number };
    const counted = { ...file, tokens };
    draftFiles.value = draftFiles.peek().map((other) => (other === file ? counted : other));
  } catch (error) {
    // The file can be sent without its number of tokens.
    report(error);
  }
}
