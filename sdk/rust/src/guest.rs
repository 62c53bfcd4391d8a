//! What the exports do that [`export!`](crate::export) makes, and the imports.

#![allow(unsafe_code)] // pointers to the host, here only

use std::cell::RefCell;
use std::panic;
use std::rc::Rc;

use crate::context::Level;
use crate::instance::{Host, Instance};
use crate::plugin::Plugin;

thread_local! {
    static INSTANCE: RefCell<Option<Rc<Instance>>> = RefCell::new(None);
}

pub fn start<A: 'static>(plugin: impl FnOnce() -> Plugin<A>, op: i32, call: i64) -> i32 {
    let instance = current().unwrap_or_else(|| {
        // Says which call it was; the trap that follows does not.
        panic::set_hook(Box::new(|info| {
            let call = current().map_or(0, |i| i.running());
            Imports.log(call, Level::Error as u32, &info.to_string());
        }));
        let made = Instance::new(Rc::new(Imports), Box::new(plugin()));
        INSTANCE.with(|i| *i.borrow_mut() = Some(made.clone()));
        made
    });
    instance.start(op as u32, call) as i32
}

pub fn resume(io: i64) -> i32 {
    current().map_or(0, |i| i.resume(io) as i32)
}

pub fn poll() -> i32 {
    current().map_or(0, |i| i.poll() as i32)
}

pub fn cancel(call: i64) -> i32 {
    current().map_or(0, |i| i.cancel(call) as i32)
}

fn current() -> Option<Rc<Instance>> {
    INSTANCE.with(|i| i.borrow().clone())
}

/// The real imports.
struct Imports;

mod sys {
    #[link(wasm_import_module = "pawl_v1")]
    extern "C" {
        pub fn input_len() -> i32;
        pub fn input_read(to: *mut u8);
        pub fn result(call: i64, ptr: *const u8, len: usize) -> i32;
        pub fn io_start(call: i64, kind: u32, ptr: *const u8, len: usize) -> i64;
        pub fn io_cancel(io: i64);
        pub fn io_call(call: i64, kind: u32, ptr: *const u8, len: usize) -> i32;
        pub fn log(call: i64, level: u32, ptr: *const u8, len: usize);
    }
}

// Each function of the host reads or writes only what it is given, within the
// call, and keeps no pointer.
impl Host for Imports {
    fn input(&self) -> Vec<u8> {
        // The host's length is that of what input_read writes.
        unsafe {
            let n = sys::input_len() as usize;
            let mut input = Vec::with_capacity(n);
            sys::input_read(input.as_mut_ptr());
            input.set_len(n);
            input
        }
    }

    /// That the call has ended already is nothing to do anything about.
    fn result(&self, call: i64, message: &[u8]) {
        unsafe { sys::result(call, message.as_ptr(), message.len()) };
    }

    fn io_start(&self, call: i64, kind: u32, message: &[u8]) -> i64 {
        unsafe { sys::io_start(call, kind, message.as_ptr(), message.len()) }
    }

    fn io_cancel(&self, io: i64) {
        unsafe { sys::io_cancel(io) }
    }

    fn io_call(&self, call: i64, kind: u32, message: &[u8]) -> i32 {
        unsafe { sys::io_call(call, kind, message.as_ptr(), message.len()) }
    }

    fn log(&self, call: i64, level: u32, line: &str) {
        unsafe { sys::log(call, level, line.as_ptr(), line.len()) }
    }
}
