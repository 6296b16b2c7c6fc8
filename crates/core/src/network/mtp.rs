//! The multi-token prediction head that some networks have.

use super::check::InvalidNetwork;
use super::{Layer, Network, Norm};

/// A small network behind the last layer that predicts one token more, for drafts.
///
/// ```text
/// x = input( embedding_norm(e) ‖ hidden_norm(h) )      e: embedding of a token
/// y = norm( layer(x) )                                 h: state of the token before it, after the final norm
/// logits of the next token = head · y
/// ```
///
/// The first token of a sequence has a state of zeros before it. For the token after a draft, `y` takes the place of
/// `h`. Embedding and head are those of the network; the layer has keys and values of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mtp {
    /// Norm of the embedding of a token.
    pub embedding_norm: Norm,
    /// Norm of the state of the token before it.
    pub hidden_norm: Norm,
    /// A layer with attention to the whole sequence and a dense feed-forward block.
    pub layer: Layer,
    /// Norm between the layer and the output head.
    pub norm: Norm,
}

impl Mtp {
    /// Checks what `Network::check` does not check of every layer.
    pub(super) fn check(&self, network: &Network) -> Result<(), InvalidNetwork> {
        let fault = |what: &str| Err(InvalidNetwork::new("prediction head", what.to_owned()));
        if self.layer.attention().is_none() || self.layer.window().is_some() {
            return fault("a layer without attention to the whole sequence is not supported");
        }
        if self.layer.ffn.dense().is_none() {
            return fault("a layer with experts is not supported");
        }
        if !network.is_recurrent() {
            return fault("a network without recurrent layers is not supported");
        }
        if network.hadamard.is_some() {
            return fault("weights under a Hadamard transform are not supported");
        }
        if 2 * network.hidden_len > Network::MAX_WIDTH {
            return fault("two hidden states are longer than a row may be");
        }
        Ok(())
    }
}
