package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"

	"github.com/pawlsync/pawl/internal/api"
	"github.com/pawlsync/pawl/web"
)

// pagePolicy lets the page run its own scripts, use its own style sheet and ask its
// own daemon, and nothing else: no inline code, no other site, no frame around it,
// and no string that becomes markup.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// pageTypes are those of the page's files. A system's own table may be wrong, and
// browsers refuse modules under another name.
var pageTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// mux is where routes are added.
type mux interface {
	HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request))
}

// pageRoutes adds the page for browsers. Its files are the same for everybody and hold
// no secret, so that they are answered to everybody: what the page then asks of the
// API is guarded as all calls are.
func pageRoutes(to mux) {
	files := map[string]http.HandlerFunc{}
	err := fs.WalkDir(web.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(web.Files, name)
		files[name] = pageFile(name, body)
		return err
	})
	if err != nil {
		panic("the page can't be read") // it is embedded, and a test reads it
	}
	to.HandleFunc("GET /ui", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "ui/") // relative: a proxy may have put something before it
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	to.HandleFunc("GET /ui/{file...}", func(w http.ResponseWriter, r *http.Request) {
		file := files[cmp.Or(r.PathValue("file"), "index.html")]
		if file == nil {
			writeProblem(w, api.NewProblem(http.StatusNotFound, api.CodeNoRoute, "the page has no file "+r.PathValue("file"), "the page is at /ui/"))
			return
		}
		file(w, r)
	})
}

// pageFile answers with one file of the page. A browser keeps it, and asks whether it
// is still the same each time: an upgrade shows at once.
func pageFile(name string, body []byte) http.HandlerFunc {
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	contentType := pageTypes[path.Ext(name)]
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY") // of browsers that don't know frame-ancestors
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}
}
