//! A model that writes a script: the thinking and the answer of a test.

use std::path::Path;
use std::thread;
use std::time::Duration;

use wf_core::Network;
use wf_engine::{EngineHandle, EngineOptions, Frontend, ModelText, TokenId, read_text};
use wf_formats::{ModelFile, ModelInfo, OpenOptions};
use wf_model::{Forward, HiddenStates, Logits, PAGE_LEN, Segment};
use wf_text::{ChatTemplate, Tokenizer};

/// Text before a completion, in the templates below.
const HEADER: &str = "assistant:";

/// A template that opens the thinking itself.
pub(crate) const OPEN: &str = "assistant:<think>\n";

/// A template that leaves the tag to the model and has a switch, as Qwen3's.
pub(crate) const SWITCH: &str = "assistant:\
    {% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}";

/// A template without thinking.
pub(crate) const PLAIN: &str = "assistant:";

/// Messages of a template without thinking.
const PLAIN_MESSAGES: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}";

/// Writes messages as Qwen3's template does: thinking only after the last message of the user.
const MESSAGES: &str = "{% for m in messages %}{{ m.role }}: \
    {% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}\
    {{ m.content }}\n{% endfor %}";

/// Text that the model writes.
#[derive(Clone, Copy)]
pub(crate) struct Script {
    /// Thinking, which it opens if the prompt has not.
    pub(crate) thinking: Option<&'static str>,
    pub(crate) answer: &'static str,
}

/// Steps of the model.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    pub(crate) max_tokens: usize,
    /// Time that a step takes at least.
    pub(crate) time: Duration,
}

/// Returns a model with this script and a template with this end.
pub(crate) fn frontend(script: Script, template_end: &str) -> Frontend {
    frontend_in_steps(script, template_end, Steps { max_tokens: 512, time: Duration::ZERO })
}

/// Returns the same model with other steps.
pub(crate) fn frontend_in_steps(script: Script, template_end: &str, steps: Steps) -> Frontend {
    let text = model_text(template_end);
    let end = text.end_tokens[0];
    let model = ScriptedModel {
        network: Network { vocab_len: text.tokenizer.len(), hidden_len: 4, ..Network::default() },
        info: ModelInfo { context_len: 1024, ..ModelInfo::default() },
        slots: vec![0; 64 * PAGE_LEN],
        steps,
        script,
        tokenizer: model_text(template_end).tokenizer,
        end,
    };
    let engine = EngineHandle::start(model, EngineOptions::default()).unwrap();
    Frontend::new(text, engine)
}

fn model_text(template_end: &str) -> ModelText {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wf/assets/demo.gguf");
    let file = ModelFile::open(&demo, &OpenOptions::default()).unwrap();
    let messages = if template_end == PLAIN { PLAIN_MESSAGES } else { MESSAGES };
    let template = ChatTemplate::new(&format!("{messages}{template_end}")).unwrap();
    ModelText { template: Some(template), ..read_text(&file).unwrap() }
}

struct ScriptedModel {
    network: Network,
    info: ModelInfo,
    /// Token at each position of each page.
    slots: Vec<TokenId>,
    steps: Steps,
    script: Script,
    tokenizer: Tokenizer,
    end: TokenId,
}

impl ScriptedModel {
    fn slot(segment: &Segment<'_>, position: usize) -> usize {
        segment.pages[position / PAGE_LEN] as usize * PAGE_LEN + position % PAGE_LEN
    }

    /// Returns the token that the script has after the tokens up to `position`.
    fn next(&self, segment: &Segment<'_>, position: usize) -> TokenId {
        let tokens: Vec<TokenId> =
            (0..=position).map(|at| self.slots[Self::slot(segment, at)]).collect();
        let text = self.tokenizer.decode(&tokens, false);
        let written = text.rsplit_once(HEADER).map_or("", |(_, written)| written);
        let (whole, written) = match (self.script.thinking, written.split_once("</think>")) {
            (Some(thinking), None) => (format!("<think>\n{thinking}\n</think>\n\n"), written),
            (_, Some((_, answer))) => (self.script.answer.to_owned(), answer.trim_start()),
            (None, None) => (self.script.answer.to_owned(), written),
        };
        let rest = whole.strip_prefix(written).unwrap_or_default();
        self.tokenizer.encode(rest).first().copied().unwrap_or(self.end)
    }
}

impl Forward for ScriptedModel {
    fn network(&self) -> &Network {
        &self.network
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn max_batch_tokens(&self) -> usize {
        self.steps.max_tokens
    }

    fn pages(&self) -> usize {
        self.slots.len() / PAGE_LEN
    }

    fn forward(&mut self, batch: &[Segment<'_>], logits: &mut Logits) -> &dyn HiddenStates {
        if !self.steps.time.is_zero() {
            thread::sleep(self.steps.time);
        }
        logits.resize(batch.iter().map(|segment| segment.scored.len()).sum());
        let mut row = 0;
        for segment in batch {
            for (at, &token) in segment.tokens.iter().enumerate() {
                self.slots[Self::slot(segment, segment.start + at)] = token;
            }
            for &scored in segment.scored {
                let next = self.next(segment, segment.start + scored);
                let logits = logits.rows_mut(row, 1);
                logits.fill(0.0);
                logits[next as usize] = 20.0;
                row += 1;
            }
        }
        self
    }
}

impl HiddenStates for ScriptedModel {
    fn read(&self, _: usize, out: &mut [f32]) {
        out.fill(0.0);
    }
}
