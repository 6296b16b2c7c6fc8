/** Requests to the server that served this page. */
import { apiKey } from "./key.ts";
import type { ErrorBody } from "./wire.ts";

/** Error response of the server; status 0 means that the server cannot be reached. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    /** Value of the `retry-after` header. */
    readonly retryAfterSeconds: number | undefined = undefined,
    readonly param: string | undefined = undefined,
  ) {
    super(message);
  }

  /** True if the same request may succeed later. */
  get isTransient(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

/** Sends a request and throws an `ApiError` unless it succeeds. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (apiKey.peek()) headers.set("authorization", `Bearer ${apiKey.peek()}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw unreachable();
  }
  if (!response.ok) throw await errorFrom(response);
  return response;
}

export function unreachable(): ApiError {
  return new ApiError(0, "unreachable", "the server cannot be reached");
}

/** Converts an error event in the middle of a stream. */
export function streamError(body: ErrorBody): ApiError {
  return new ApiError(200, body.code ?? "error", body.message);
}

async function errorFrom(response: Response): Promise<ApiError> {
  const after = Number(response.headers.get("retry-after") ?? NaN);
  let body: ErrorBody = { message: `the server returned status ${response.status}` };
  try {
    body = ((await response.json()) as { error: ErrorBody }).error ?? body;
  } catch {
    // A proxy may have replaced the body; the status is enough.
  }
  return new ApiError(
    response.status,
    body.code ?? "",
    body.message,
    Number.isFinite(after) ? after : undefined,
    body.param ?? undefined,
  );
}
