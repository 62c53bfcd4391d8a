package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// needs says of every route what its caller has to hold. A route without a row
// can't be added.
var needs = map[string]need{
	"GET /livez":        {where: anybody},
	"GET /readyz":       {where: anybody},
	"GET /version":      {where: known},
	"GET /openapi.json": {where: known},
	"GET /openapi.yaml": {where: known},
	"GET /v1/whoami":    {where: known},
	"GET /ui":           {where: anybody},
	"GET /ui/{file...}": {where: anybody},
	"GET /metrics":      {access.Read, everywhere},

	"POST /v1/reload":                   {access.Admin, everywhere},
	"GET /v1/status":                    {access.Read, somewhere},
	"GET /v1/status/watch":              {access.Read, somewhere},
	"GET /v1/sinks":                     {access.Read, somewhere},
	"POST /v1/sinks/{sink}/suspend":     {access.Admin, ofWholeSink},
	"POST /v1/sinks/{sink}/resume":      {access.Admin, ofWholeSink},
	"GET /v1/resources":                 {access.Read, somewhere},
	"GET /v1/watch":                     {access.Read, somewhere},
	"POST /v1/batch":                    {access.Write, somewhere},
	"POST /v1/plan":                     {access.Read, somewhere},
	"GET " + resourcePath:               {access.Read, ofResource},
	"PUT " + resourcePath:               {access.Write, ofResource},
	"DELETE " + resourcePath:            {access.Write, ofResource},
	"GET " + resourcePath + "/wait":     {access.Read, ofResource},
	"GET " + resourcePath + "/explain":  {access.Read, ofResource},
	"GET " + resourcePath + "/diff":     {access.Read, ofResource},
	"POST " + resourcePath + "/retry":   {access.Write, ofResource},
	"POST " + resourcePath + "/suspend": {access.Write, ofResource},
	"POST " + resourcePath + "/resume":  {access.Write, ofResource},
	"POST " + resourcePath + "/accept":  {access.Write, ofResource},
	"POST " + resourcePath + "/force":   {access.Write, ofResource},
	"POST " + resourcePath + "/forget":  {access.Admin, ofResource},

	"POST /v1/sagas":              {access.Write, somewhere},
	"GET /v1/sagas":               {access.Read, somewhere},
	"GET /v1/sagas/{id}":          {access.Read, somewhere},
	"GET /v1/sagas/{id}/wait":     {access.Read, somewhere},
	"GET /v1/sagas/{id}/explain":  {access.Read, somewhere},
	"POST /v1/sagas/{id}/resolve": {access.Admin, somewhere},
	"GET /v1/saga-templates":      {access.Read, somewhere},

	"POST /v1/relay":         {access.Write, somewhere},
	"POST /v1/relay/look":    {access.Write, somewhere},
	"POST /v1/relay/compare": {access.Write, somewhere},

	"GET /v1/sources":                    {access.Read, everywhere},
	"GET /v1/sources/{source}":           {access.Read, everywhere},
	"GET /v1/sources/{source}/held":      {access.Read, everywhere},
	"POST /v1/sources/{source}/rescan":   {access.Admin, everywhere},
	"POST /v1/sources/{source}/confirm":  {access.Admin, everywhere},
	"POST /v1/sources/{source}/handover": {access.Admin, everywhere},

	"GET /v1/log-level": {access.Read, everywhere},
	"PUT /v1/log-level": {access.Admin, everywhere},

	"GET /v1/debug/bundle": {access.Admin, everywhere},

	"GET /v1/store":          {access.Admin, everywhere},
	"POST /v1/store/compact": {access.Admin, everywhere},
	"GET /v1/store/backup":   {access.Admin, everywhere},
	"GET /v1/store/export":   {access.Admin, everywhere},
}

// routes returns the mux with every route, and the documents that describe them.
func (s *Server) routes() *http.ServeMux {
	mux := guardedMux{http.NewServeMux()}
	a := s.describe(mux)
	document := a.OpenAPI()
	asJSON, err := document.MarshalJSON()
	asYAML, yamlErr := document.YAML()
	if err != nil || yamlErr != nil {
		panic("the API can't describe itself") // it is built of constants, and a test builds it
	}
	mux.HandleFunc("GET /openapi.json", static("application/openapi+json", asJSON))
	mux.HandleFunc("GET /openapi.yaml", static("application/openapi+yaml", asYAML))
	if s.o.Metrics != nil {
		mux.Handle("GET /metrics", s.o.Metrics)
	}
	pageRoutes(mux)
	return mux.ServeMux
}

// describe adds every route that the OpenAPI document has.
func (s *Server) describe(mux humago.Mux) huma.API {
	format := huma.Format{Marshal: marshal, Unmarshal: json.Unmarshal}
	a := humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Pawl", Version: "v1",
				Description: "Pawl holds the newest desired state of every resource until its target has confirmed it. See docs/api.md.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"token": {Type: "http", Scheme: "bearer", Description: "Where the daemon has a token file."},
				},
			},
			Security: []map[string][]string{{}, {"token": {}}},
		},
		Formats:                      map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{fromHuma},
	})
	s.resourceRoutes(a)
	s.operatorRoutes(a)
	s.listRoutes(a)
	s.batchRoute(a)
	s.planRoutes(a)
	s.watchRoute(a)
	s.statusWatchRoute(a)
	s.relayRoutes(a)
	s.sagaRoutes(a)
	s.sourceRoutes(a)
	s.sinkRoutes(a)
	s.daemonRoutes(a)
	s.storeRoutes(a)
	s.debugRoutes(a)
	s.logRoutes(a)
	s.reloadRoutes(a)
	s.whoamiRoute(a)
	schemas := a.OpenAPI().Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma's own; api.Problem takes their place
	delete(schemas, "ErrorDetail")
	return a
}

func marshal(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func static(contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}
}

// operation describes one route. statuses are those that it refuses with,
// beside 401 and 403.
func operation(a huma.API, id, method, path, summary, description string, statuses ...int) huma.Operation {
	op := huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Description: description,
		Responses: map[string]*huma.Response{},
		Tags:      []string{strings.Split(strings.Trim(path, "/"), "/")[0]},
	}
	schema := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, "Problem")
	content := map[string]*huma.MediaType{"application/problem+json": {Schema: schema}}
	for _, status := range statuses {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: content}
	}
	op.Responses["default"] = &huma.Response{Description: "Another error", Content: content}
	return op
}

// documentBody says what a body looks like that a handler reads by itself, as
// strictly as huma does not.
func documentBody[T any](a huma.API, path, method, contentType, description string) {
	item := a.OpenAPI().Paths[path]
	op := item.Put
	if method == http.MethodPost {
		op = item.Post
	}
	schema := a.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[T](), true, "")
	op.RequestBody = &huma.RequestBody{
		Required: true, Description: description,
		Content: map[string]*huma.MediaType{contentType: {Schema: schema}},
	}
}

// call is the HTTP request that a handler answers.
type call struct {
	r *http.Request
	w http.ResponseWriter
}

// Resolve is how huma hands over the request.
func (c *call) Resolve(ctx huma.Context) []error {
	c.r, c.w = humago.Unwrap(ctx)
	return nil
}

// optional is a parameter that tells 0 from absent.
type optional[T any] struct {
	Value T
	IsSet bool
}

// Schema is T's.
func (o optional[T]) Schema(r huma.Registry) *huma.Schema {
	return huma.SchemaFromType(r, reflect.TypeFor[T]())
}

// Receiver is where huma puts the value.
func (o *optional[T]) Receiver() reflect.Value { return reflect.ValueOf(o).Elem().Field(0) }

// OnParamSet notes that there is one.
func (o *optional[T]) OnParamSet(isSet bool, _ any) { o.IsSet = isSet }

func (o *optional[T]) pointer() *T {
	if !o.IsSet {
		return nil
	}
	return &o.Value
}

// KeyInput names one resource. The key is a query parameter and no part of the
// path: keys hold slashes and dots, and proxies rewrite those in paths even
// where they are escaped.
type KeyInput struct {
	Sink string `path:"sink" doc:"The sink's name."`
	Key  string `query:"key" required:"true" doc:"The resource's key within the sink, percent-encoded."`
}

func (k *KeyInput) key() record.Key { return record.Key{Sink: k.Sink, Name: k.Key} }

// output is an answer with a body.
type output[T any] struct{ Body T }

// answer is v, or err as a problem.
func answer[T any](ctx context.Context, s *Server, v T, err error) (*output[T], error) {
	if err != nil {
		return nil, s.problem(ctx, err)
	}
	return &output[T]{Body: v}, nil
}
