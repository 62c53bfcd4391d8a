package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawlsync/pawl/plugins/internal/conf"
	"github.com/pawlsync/pawl/plugins/internal/jsondoc"
	pawl "github.com/pawlsync/pawl/sdk/go"
)

// polling is where the target lists its objects.
type polling struct {
	path string
	// JSON pointers: to the list in the answer, to the key in an item, and to the
	// content in an item. Of a list that is an object, the members' names are the keys.
	items, key, content string
	headers             []headerTemplate
}

// maxListBytes bounds the answer to a poll.
const maxListBytes = 3 << 20

// readPoll reads the config of polls; nil: there are none.
func (cfg *config) readPoll(root *conf.Object, shared []headerTemplate) (p *polling) {
	root.Object("poll", func(o *conf.Object) {
		p = &polling{}
		o.String("path", &p.path)
		o.String("items", &p.items)
		o.String("key", &p.key)
		o.String("content", &p.content)
		p.headers = merge(shared, readHeaders(o))
		if !strings.HasPrefix(p.path, "/") {
			o.Fail("path", "the path of the list is needed, as \"/objects\"")
		}
		for name, v := range map[string]string{"items": p.items, "key": p.key, "content": p.content} {
			if v != "" && v[0] != '/' {
				o.Fail(name, "a JSON pointer is expected, as \"/id\"; empty: the whole")
			}
		}
	})
	if p != nil && !cfg.reportsContent() {
		root.Fail("poll", "the content of the listed objects is of no use: observe must be a GET, and apply.body the payload as it is")
	}
	return p
}

// reportsContent reports whether what observe reads is what apply would write.
func (cfg *config) reportsContent() bool {
	return cfg.observe.enabled && cfg.observe.method == "GET" && cfg.apply.body != nil && cfg.apply.body.onlyPayload()
}

// Poll reads the list, if it changed: a cursor is its ETag. A target without ETags
// tells all of it each time.
func (a *adapter) Poll(ctx context.Context, cursor string) (c pawl.Changes, err error) {
	p := a.cfg.poll
	if p == nil {
		return c, pawl.Rejected("the sink's config has no poll")
	}
	req := &pawl.HTTPRequest{Upstream: a.cfg.upstream.Name, Method: "GET", Path: p.path}
	if cursor != "" {
		req.Headers = append(req.Headers, pawl.Header{Name: "If-None-Match", Value: cursor})
	}
	for i := range p.headers {
		v, err := p.headers[i].value.render(&pawl.Request{})
		if err != nil {
			return c, err
		}
		req.Headers = append(req.Headers, pawl.Header{Name: p.headers[i].name, Value: v})
	}
	resp, err := pawl.Do(ctx, req)
	switch {
	case err != nil:
		return c, err
	case resp.Status == 304 && cursor != "":
		return pawl.Changes{Cursor: cursor}, nil
	case resp.Status == 404 || resp.Status == 410: // of a list that is no success, and says of no object that it is gone
		return c, pawl.Retry("the list " + p.path + " does not exist at the target (" + strconv.Itoa(resp.Status) + ")")
	case len(resp.Body) > maxListBytes:
		return c, pawl.Retry("the list has " + strconv.Itoa(len(resp.Body)) + " bytes, more than the " + strconv.Itoa(maxListBytes) +
			" that a poll takes; do without poll, and objects are looked at one by one")
	}
	if err := a.cfg.classify("GET", resp, false); err != nil {
		return c, err
	}
	if c.Seen, err = p.read(resp.Body); err != nil {
		return pawl.Changes{}, err
	}
	c.Cursor, c.Reset = resp.Header("ETag"), cursor != ""
	return c, nil
}

// read finds the objects in a list.
func (p *polling) read(body []byte) ([]pawl.Seen, error) {
	doc, err := jsondoc.Parse(view(body))
	if err != nil {
		return nil, pawl.Retry("the target's list is " + err.Error())
	}
	list, ok := at(doc.Root(), p.items)
	if !ok || list.Kind() != jsondoc.Array && list.Kind() != jsondoc.Object {
		return nil, pawl.Retry("the target's answer has no list at " + strconv.Quote(p.items) + "; check poll.items")
	}
	var seen []pawl.Seen
	var wrong error
	add := func(key string, item jsondoc.Value) bool {
		content, ok := at(item, p.content)
		switch {
		case !ok:
			wrong = pawl.Retry("an item of the target's list has nothing at " + strconv.Quote(p.content) + "; check poll.content")
		case len(seen) == pawl.MaxSeen:
			wrong = pawl.Retry("the target's list has more than " + strconv.Itoa(pawl.MaxSeen) + " items; do without poll, and objects are looked at one by one")
		default:
			seen = append(seen, pawl.Seen{Key: key, Observation: pawl.Observation{Exists: true, Content: []byte(content.Raw())}})
		}
		return wrong == nil
	}
	if list.Kind() == jsondoc.Object {
		list.Members(add)
		return seen, wrong
	}
	list.Items(func(_ int, item jsondoc.Value) bool {
		key, ok := at(item, p.key)
		if !ok || key.Kind() != jsondoc.String && key.Kind() != jsondoc.Number {
			wrong = pawl.Retry("an item of the target's list has no key at " + strconv.Quote(p.key) + "; check poll.key")
			return false
		}
		if key.Kind() == jsondoc.Number {
			return add(key.Raw(), item)
		}
		return add(key.Text(), item)
	})
	return seen, wrong
}

// at follows a JSON pointer through objects (RFC 6901).
func at(v jsondoc.Value, pointer string) (jsondoc.Value, bool) {
	for pointer != "" {
		token := pointer[1:]
		rest := ""
		if i := strings.IndexByte(token, '/'); i >= 0 {
			token, rest = token[:i], token[i:]
		}
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		var ok bool
		if v.Kind() != jsondoc.Object {
			return v, false
		}
		if v, ok = v.Get(token); !ok {
			return v, false
		}
		pointer = rest
	}
	return v, true
}
