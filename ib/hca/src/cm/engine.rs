//! The engine as programs know it: with the connection manager.
//!
//! Owns that there is one manager for each engine, made when it is first used. Must not know what
//! the manager does.

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use ferriband_cm::Route;
use ferriband_memory::host::ProcessRef;
use ferriband_wire::mad::MAD_LEN;

use super::{Cm, post};
use crate::base::error::Error;
use crate::progress;
use crate::progress::manager::Manager;

/// The process's engine.
#[derive(Debug)]
pub struct Engine(Arc<progress::Engine>);

impl Deref for Engine {
    type Target = Arc<progress::Engine>;

    fn deref(&self) -> &Arc<progress::Engine> {
        &self.0
    }
}

impl Engine {
    /// The process's engine; started if there is none.
    ///
    /// # Errors
    /// What the host's registry, memory or the thread's start say.
    pub fn get() -> Result<Arc<Self>, Error> {
        Ok(Arc::new(Engine(engine()?)))
    }

    /// The connection manager.
    pub fn cm(&self) -> &Cm {
        Cm::of(&self.0)
    }
}

/// The process's engine, as the loop knows it; started if there is none.
///
/// # Errors
/// As [`Engine::get`].
pub(crate) fn engine() -> Result<Arc<progress::Engine>, Error> {
    progress::Engine::get(|| Box::<OfEngine>::default())
}

impl Cm {
    /// That of an engine.
    pub(crate) fn of(engine: &progress::Engine) -> &Cm {
        let manager: Option<&OfEngine> = engine.manager().any().downcast_ref();
        manager
            .expect("every engine is started with this manager")
            .get(engine)
    }
}

/// The manager of an engine, once it is used.
#[derive(Debug, Default)]
struct OfEngine(OnceLock<Cm>);

impl OfEngine {
    fn get(&self, engine: &progress::Engine) -> &Cm {
        // messages of other processes may come from now on; without the box they are lost, and
        // asked for again
        let _ = engine.post_box();
        self.0.get_or_init(|| {
            post::open_for_mads(engine);
            let word = || {
                let mut bytes = [0; 8];
                // without randomness the identifiers are predictable, no more
                let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
                u64::from_ne_bytes(bytes)
            };
            Cm::new(engine.process.slot, [word(), word()])
        })
    }
}

impl Manager for OfEngine {
    fn any(&self) -> &dyn Any {
        self
    }

    fn is_used(&self) -> bool {
        self.0.get().is_some()
    }

    fn message(&self, engine: &progress::Engine, slot: u32, mad: &[u8; MAD_LEN]) {
        self.get(engine)
            .message(engine, Route::Host { slot }, None, mad);
    }

    fn due(&self, engine: &progress::Engine) {
        if let Some(cm) = self.0.get() {
            cm.tick(engine);
        }
    }

    fn gone(&self, engine: &progress::Engine, process: ProcessRef) {
        if let Some(cm) = self.0.get() {
            cm.process_gone(engine, process);
        }
    }

    fn inherit(&self, engine: &progress::Engine) {
        Cm::speak_for_the_dead(engine);
    }

    fn look_around(&self, engine: &progress::Engine) {
        if self.is_used() {
            post::open_for_mads(engine);
        }
    }

    fn leave(&self, engine: &progress::Engine, takes: bool) {
        if let Some(cm) = self.0.get() {
            cm.say_goodbye(engine, || {
                if takes {
                    engine.receive_all();
                }
            });
        }
    }
}
