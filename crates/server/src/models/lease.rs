//! The use of a loaded model, which keeps it in memory.

use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::Notify;

use super::served::ServedModel;

/// The use of a loaded model. While there is a lease, the model stays in memory.
#[derive(Clone)]
pub(crate) struct Lease {
    /// `None` only while it is dropped.
    model: Option<Arc<ServedModel>>,
    released: Arc<Notify>,
}

impl Lease {
    /// Takes part in the use of a model; `released` is notified when this ends.
    pub(super) fn new(model: &Arc<ServedModel>, released: &Arc<Notify>) -> Self {
        Self { model: Some(Arc::clone(model)), released: Arc::clone(released) }
    }
}

impl Deref for Lease {
    type Target = ServedModel;

    fn deref(&self) -> &ServedModel {
        self.model.as_deref().expect("a lease has its model until it is dropped")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // First the model, so that those who are notified find it idle.
        self.model = None;
        self.released.notify_waiters();
    }
}
