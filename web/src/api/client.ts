/** Requests to the server this page came from. */
import { apiKey } from "./key.ts";
import type { ErrorFacts } from "./wire.ts";

/** An answer that is a refusal; status 0 is a server that cannot be reached. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** When to ask again, where the server says so. */
    readonly retryAfterSeconds: number | undefined = undefined,
    readonly param: string | undefined = undefined,
  ) {
    super(message);
  }

  /** Whether the same request may be answered later. */
  get isPassing(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

/** Asks, and throws what is no success. */
export async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (apiKey.peek()) headers.set("authorization", `Bearer ${apiKey.peek()}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw unreachable();
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

export function unreachable(): Refused {
  return new Refused(0, "unreachable", "the server cannot be reached");
}

/** What an error in the middle of a stream becomes. */
export function streamError(facts: ErrorFacts): Refused {
  return new Refused(200, facts.code ?? "error", facts.message);
}

async function refusal(response: Response): Promise<Refused> {
  const after = Number(response.headers.get("retry-after") ?? NaN);
  let facts: ErrorFacts = { message: `the server answered ${response.status}` };
  try {
    facts = ((await response.json()) as { error: ErrorFacts }).error ?? facts;
  } catch {
    // A proxy between may answer in a form of its own; the status says enough.
  }
  return new Refused(
    response.status,
    facts.code ?? "",
    facts.message,
    Number.isFinite(after) ? after : undefined,
    facts.param ?? undefined,
  );
}
