//! A plugin that does what a resource's key says, for tests of the Rust SDK in
//! the real host. The first word of the key is one of
//!
//! | word | apply |
//! |---|---|
//! | ok | is done at once |
//! | park | sleeps at the host for as many milliseconds as the payload says |
//! | steps | sends GET /KEY/0, /KEY/1 and so on, one after the other, as many as the payload says |
//! | fan | sends them at once |
//! | both | sends GET /KEY and sleeps for an hour, at once |
//! | race | sends GET /slow, and gives it up after a sleep of 1 ms |
//! | block | sends GET /KEY in the blocking form, after a sleep in it |
//! | cancelled | answers how many calls were dropped before their end |
//! | log | logs the payload as a warning |
//! | panic | panics |
//! | recurse | recurses for ever |
//! | grow | allocates for ever |
//! | spin | loops for ever |
//! | hang | waits for something that never happens |
//! | state | returns one byte more of adapter state than may be |
//! | saga | answers what the request says of a saga; restore and unlock do so whatever the key |

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use pawl::{Config, Configured, Context, Error, First, HttpRequest, Level, Manifest, Observation, Plugin, Request, Result};

pawl::export!(plugin());

fn plugin() -> Plugin<Guest> {
    let manifest = Manifest {
        name: "rust".into(),
        version: "1".into(),
        apply_confirms: true,
        apply_idempotent: true,
        finds_by_key: true,
        ..Manifest::default()
    };
    Plugin::new(manifest, Guest::configure).observe(Guest::apply).apply(Guest::apply).delete(Guest::delete).apply_batch(100, Guest::apply_batch).restore(Guest::restore).unlock(Guest::unlock)
}

#[derive(Default)]
struct Guest {
    dropped: Cell<u32>,
}

/// Counts itself where it is dropped before it was disarmed.
struct Alive(Rc<Guest>, bool);

impl Drop for Alive {
    fn drop(&mut self) {
        if self.1 {
            self.0.dropped.set(self.0.dropped.get() + 1);
        }
    }
}

impl Guest {
    async fn configure(_: Context, c: Config) -> Result<Configured<Guest>> {
        match c.json()?.get("fail").and_then(|v| v.as_str()) {
            Some("panic") => panic!("told to"),
            Some(message) => Err(Error::rejected(message)),
            None => Ok(Configured::new(Guest::default())),
        }
    }

    async fn apply(self: Rc<Self>, cx: Context, r: Request) -> Result<Observation> {
        let mut alive = Alive(self.clone(), true);
        let answer = self.answer(&cx, &r).await;
        alive.1 = false;
        answer
    }

    async fn answer(&self, cx: &Context, r: &Request) -> Result<Observation> {
        let mut o = Observation { exists: true, ..Observation::default() };
        match r.key.split('-').next().unwrap_or("") {
            "ok" => {}
            "park" => cx.sleep(Duration::from_millis(number(r)?)).await?,
            "steps" => {
                for step in 0..number(r)? {
                    o.reference += &get(cx, format!("/{}/{}", r.key, step)).await?;
                }
            }
            "fan" => {
                let gets = (0..number(r)?).map(|i| get(cx, format!("/{}/{}", r.key, i)));
                for body in pawl::join_all(gets).await {
                    o.reference += &body?;
                }
            }
            "both" => {
                let (body, slept) = pawl::join(get(cx, format!("/{}", r.key)), cx.sleep(Duration::from_secs(3600))).await;
                slept?;
                o.reference = body?;
            }
            "race" => match pawl::race(get(cx, "/slow".into()), cx.sleep(Duration::from_millis(1))).await {
                First::A(body) => o.reference = body?,
                First::B(slept) => {
                    slept?;
                    o.reference = get(cx, "/fast".into()).await?;
                }
            },
            "block" => {
                cx.sleep_blocking(Duration::from_millis(1))?;
                let got = cx.http_blocking(&HttpRequest::new("GET", "target", format!("/{}", r.key)))?.success()?;
                o.reference = String::from_utf8_lossy(&got.body).into_owned();
            }
            "cancelled" => o.reference = self.dropped.get().to_string(),
            "log" => cx.log(Level::Warn, &String::from_utf8_lossy(&r.payload)),
            "panic" => panic!("told to"),
            "recurse" => o.cursor = recurse(1).to_string(),
            "grow" => {
                let mut all = Vec::new();
                loop {
                    all.push(vec![1_u8; 1 << 20]);
                }
            }
            "spin" => loop {
                std::hint::spin_loop();
            },
            "hang" => std::future::pending().await,
            "state" => o.adapter_state = vec![0; pawl::MAX_ADAPTER_STATE_BYTES + 1],
            "saga" => o.reference = format!("{:?}", r.saga),
            word => return Err(Error::rejected(format!("{:?} is none of the words that this plugin knows", word))),
        }
        Ok(o)
    }

    async fn delete(self: Rc<Self>, _: Context, _: Request) -> Result<()> {
        Ok(())
    }

    async fn restore(self: Rc<Self>, _: Context, r: Request) -> Result<Observation> {
        Ok(Observation { reference: format!("{:?}", r.saga), ..Observation::default() })
    }

    async fn unlock(self: Rc<Self>, _: Context, r: Request) -> Result<()> {
        Err(Error::retry(format!("{:?}", r.saga)))
    }

    async fn apply_batch(self: Rc<Self>, cx: Context, rs: Vec<Request>) -> Result<Vec<Result<Observation>>> {
        Ok(pawl::join_all(rs.iter().map(|r| self.answer(&cx, r))).await)
    }
}

fn number(r: &Request) -> Result<u64> {
    pawl::json::parse(&r.payload)?.as_u64().ok_or_else(|| Error::rejected("the payload is no number"))
}

async fn get(cx: &Context, path: String) -> Result<String> {
    let got = cx.http(HttpRequest::new("GET", "target", path)).await?.success()?;
    Ok(String::from_utf8_lossy(&got.body).into_owned())
}

/// Never ends, and is written so that a compiler can't know, or make a loop of it.
fn recurse(n: u64) -> u64 {
    let held = vec![n; 8];
    if n == u64::MAX {
        return 0;
    }
    let deeper = recurse(n + 1);
    deeper + held[(deeper % 8) as usize]
}
