package metrics

// spans counts what is sent where traces are made.
var spans = metric{"pawl_trace_spans_total", counter, "Spans of traces that were sent, by result: exported, or failed (lost). Absent until the first.", []string{"result"}}

// SpansSent counts spans; result is "exported" or "failed".
func (o *Observer) SpansSent(result string, n int) {
	o.spans.WithLabelValues(result).Add(float64(n))
}
