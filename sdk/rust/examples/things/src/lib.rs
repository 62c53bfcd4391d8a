//! Objects of a key-value store behind HTTP: `PUT`, `GET` and `DELETE` on a path
//! that is made of the resource's key. The payload is the object, as it is.

use std::rc::Rc;

use pawl::{Config, Configured, Context, Error, HttpRequest, Manifest, Observation, Plugin, Request, Result, Tri};

pawl::export!(plugin());

fn plugin() -> Plugin<Things> {
    let manifest = Manifest {
        name: "things".into(),
        version: "1.0.0".into(),
        config_schema: include_str!("config.schema.json").into(),
        apply_confirms: true,      // a 2xx proves that the target persisted it
        apply_idempotent: true,    // the same PUT twice is harmless
        finds_by_key: true,        // the path is made of the key: never a second object
        as_found_comparable: true, // as_found is the SHA-256 of the object's bytes
        upstream_kinds: vec!["http".into()],
        ..Manifest::default()
    };
    Plugin::new(manifest, Things::configure).observe(Things::observe).apply(Things::apply).delete(Things::delete)
}

/// One sink's adapter.
struct Things {
    upstream: String,
    prefix: String, // "/objects"
}

impl Things {
    async fn configure(_: Context, c: Config) -> Result<Configured<Things>> {
        let config = c.json()?;
        config.only(&["prefix", "upstream"])?; // a misspelt key is an error, not a default
        let text = |name: &str| match config.get(name) {
            None => Ok(None),
            Some(v) => v.as_str().map(Some).ok_or_else(|| Error::rejected(format!("config: {}: a string is needed, not {}", name, v.kind()))),
        };
        let prefix = text("prefix")?.unwrap_or("/objects");
        if !prefix.starts_with('/') || prefix.ends_with('/') {
            return Err(Error::rejected("config: prefix: a path is needed, such as \"/objects\", without a slash at its end"));
        }
        let upstream = c.upstream(text("upstream")?)?;
        Ok(Configured::new(Things { upstream: upstream.name.clone(), prefix: prefix.into() }).target(upstream.base_url.clone() + prefix))
    }

    async fn observe(self: Rc<Self>, cx: Context, r: Request) -> Result<Observation> {
        let found = cx.http(self.request("GET", &r)).await?.success()?;
        let as_found = pawl::hex(&pawl::sha256(&found.body));
        let attempted = r.attempted.iter().any(|a| pawl::hex(&a.content_hash) == as_found);
        Ok(Observation {
            match_desired: Tri::from(found.body == r.payload),
            match_acked: r.acked.map_or(Tri::Unknown, |a| Tri::from(a.as_found == as_found)),
            match_attempted: if r.attempted.is_empty() { Tri::Unknown } else { Tri::from(attempted) },
            content: Some(found.body),
            as_found,
            ..self.seen(&r.key)
        })
    }

    async fn apply(self: Rc<Self>, cx: Context, r: Request) -> Result<Observation> {
        let put = self.request("PUT", &r).header("Content-Type", "application/json").body(r.payload);
        if cx.http(put).await?.success()?.status == 202 {
            return Err(Error::retry("the target has only accepted the object; it may not hold it yet"));
        }
        Ok(Observation { as_found: pawl::hex(&r.content_hash), ..self.seen(&r.key) })
    }

    async fn delete(self: Rc<Self>, cx: Context, r: Request) -> Result<()> {
        match cx.http(self.request("DELETE", &r)).await?.success()?.status {
            202 => Err(Error::in_progress("the target has only accepted the deletion")),
            _ => Ok(()), // and a 404 is "not found", which is success here
        }
    }

    fn request(&self, method: &str, r: &Request) -> HttpRequest {
        HttpRequest::new(method, &self.upstream, self.path(&r.key)).header("Idempotency-Key", r.idempotency_key.as_str())
    }

    /// A key holds any character.
    fn path(&self, key: &str) -> String {
        format!("{}/{}", self.prefix, pawl::escape_path(key))
    }

    fn seen(&self, key: &str) -> Observation {
        let path = self.path(key);
        Observation { exists: true, object: path.clone(), reference: path, ..Observation::default() }
    }
}

#[cfg(test)]
mod tests;
