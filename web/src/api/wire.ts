/** The parts of the API's types that the page uses. */

/** `GET /props`. */
export interface Props {
  default_generation_settings: {
    n_ctx: number;
  };
  sampling_params: SamplingParam[];
  limits: { stop: number; stop_bytes: number; logit_bias: number; deadline_seconds: number };
  total_slots: number;
  model_path: string;
  model_names: string[];
  /** Names of all models of the server, one of each. */
  models?: string[];
  /** Addresses of MCP servers that the page may use. */
  mcp_servers?: string[];
  model_digest: string;
  architecture: string;
  isa: string;
  threads: number;
  kv: string;
  kv_tokens: number;
  attention?: AttentionInfo;
  system_fingerprint: string;
  build_info: string;
  decode?: DecodeInfo;
  /** Null if the model does not think. */
  thinking?: ThinkingInfo | null;
}

/** Positions that attention reads. */
export interface AttentionInfo {
  mode: string;
  /** Number of newest positions that a token sees, and of first ones; null if it sees all. */
  window: number | null;
  sinks: number | null;
  /** Maximum number of tokens of prompt and response. */
  max_tokens: number;
}

/** Thinking before an answer, which requests turn on, off or limit. */
export interface ThinkingInfo {
  /** Values of `reasoning_effort`. Zero tokens turn thinking off, null is no limit. */
  efforts: { name: string; max_tokens: number | null }[];
}

/** Numeric sampling parameter of a request. */
export interface SamplingParam {
  name: string;
  /** Value that the server uses if a request does not set the parameter. */
  default?: number | null;
  min?: number | null;
  max?: number | null;
  /** If true, values must be greater than `min`. */
  exclusive_min?: boolean;
  integer?: boolean;
  doc: string;
}

/** Decoding modes of the server. */
export interface DecodeInfo {
  default: string;
  modes: string[];
  /** Documentation of each mode in one line, by name. */
  docs?: Record<string, string>;
  /** Rules of block diffusion; empty if the model does not support it. */
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
  /** Tokens that a window has slid over. */
  out_of_sight_n?: number;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens: number };
}

/** New text of a response. */
export interface Delta {
  content?: string | null;
  /** What a model thinks before it answers; some servers call the field `reasoning`. */
  reasoning_content?: string | null;
  reasoning?: string | null;
  tool_calls?: ToolCallDelta[];
}

/** Part of a tool call. */
export interface ToolCallDelta {
  index: number;
  id?: string;
  function?: { name?: string; arguments?: string };
}

/** One event of a streamed `POST /v1/chat/completions`. */
export interface ChatChunk {
  model?: string;
  choices?: { delta?: Delta; finish_reason?: string | null }[];
  usage?: Usage | null;
  timings?: Timings;
  seed?: number;
  prompt_progress?: Progress;
  /** State of the block being filled: the text of each token, null for a mask. */
  block_preview?: (string | null)[];
  error?: ErrorBody;
}

export interface ErrorBody {
  message: string;
  code?: string | null;
  param?: string | null;
}

export interface ChatRequest {
  messages: {
    role: "system" | "user" | "assistant" | "tool";
    content: string;
    tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
    tool_call_id?: string;
  }[];
  [setting: string]: unknown;
}
