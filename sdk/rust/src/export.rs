//! The exports of a plugin.

/// Makes a WebAssembly module of the crate: its plugin is what the expression
/// gives. Once per crate, which has the crate type `cdylib`.
#[macro_export]
macro_rules! export {
    ($plugin:expr) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            #[no_mangle]
            pub extern "C" fn pawl_abi() -> i32 {
                1
            }
            #[no_mangle]
            pub extern "C" fn pawl_start(op: i32, call: i64) -> i32 {
                $crate::guest::start(|| $plugin, op, call)
            }
            #[no_mangle]
            pub extern "C" fn pawl_resume(io: i64) -> i32 {
                $crate::guest::resume(io)
            }
            #[no_mangle]
            pub extern "C" fn pawl_poll() -> i32 {
                $crate::guest::poll()
            }
            #[no_mangle]
            pub extern "C" fn pawl_cancel(call: i64) -> i32 {
                $crate::guest::cancel(call)
            }
        };
    };
}
