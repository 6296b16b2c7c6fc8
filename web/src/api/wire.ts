/** What the server says, as far as the page reads it. */

/** `GET /props`. */
export interface Props {
  default_generation_settings: {
    n_ctx: number;
    temperature: number;
    top_k: number;
    top_p: number;
    min_p: number;
    repetition_penalty: number;
  };
  limits: { stop: number; stop_bytes: number; logit_bias: number; deadline_seconds: number };
  total_slots: number;
  model_path: string;
  model_names: string[];
  model_digest: string;
  architecture: string;
  isa: string;
  threads: number;
  kv: string;
  kv_tokens: number;
  system_fingerprint: string;
  build_info: string;
  decode?: DecodeFacts;
}

/** The ways to decode that a server has. */
export interface DecodeFacts {
  default: string;
  modes: string[];
  /** For filling blocks, where the model does. */
  rules: string[];
  block_size: number | null;
  sub_block_size: number | null;
}

export interface Progress {
  total: number;
  processed: number;
  cache: number;
}

export interface Timings {
  queue_ms: number;
  cache_n: number;
  prompt_n: number;
  prompt_ms: number;
  prompt_per_second: number;
  predicted_n: number;
  predicted_ms: number;
  predicted_per_second: number;
  passes_n?: number;
  draft_n?: number;
  draft_n_accepted?: number;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens: number };
}

/** One event of `POST /v1/chat/completions`. */
export interface ChatChunk {
  model?: string;
  choices?: { delta?: { content?: string | null }; finish_reason?: string | null }[];
  usage?: Usage | null;
  timings?: Timings;
  seed?: number;
  prompt_progress?: Progress;
  /** How the block that is being filled stands: the text of each token, null for a mask. */
  block_preview?: (string | null)[];
  error?: ErrorFacts;
}

export interface ErrorFacts {
  message: string;
  code?: string | null;
  param?: string | null;
}

export interface ChatRequest {
  messages: { role: "system" | "user" | "assistant"; content: string }[];
  [setting: string]: unknown;
}
