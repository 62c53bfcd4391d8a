package metrics

// What the engine and the relay report of whole sets of resources.
var (
	compared      = metric{"pawl_comparisons_total", counter, "Comparisons of a sink's acknowledged resources with its target, of sinks that compare them as a whole.", []string{"sink"}}
	comparedFound = metric{"pawl_comparison_differences_total", counter, "What comparisons found: redelivered, resources that the target had lost or changed; deleted, objects that nobody desires.", []string{"sink", "kind"}}
	relayItems    = metric{"pawl_relay_items_total", counter, "Items that other pawls sent here, by sender and how they were answered.", []string{"sender", "outcome"}}
	relayFound    = metric{"pawl_relay_differences_total", counter, "Resources that comparisons asked for by a sender found to differ here.", []string{"sender"}}
)

// CompareDone implements engine.Observer.
func (o *Observer) CompareDone(sinkName string, _, redelivered, deleted int) {
	o.compared.WithLabelValues(sinkName).Inc()
	o.comparedFound.WithLabelValues(sinkName, "redelivered").Add(float64(redelivered))
	o.comparedFound.WithLabelValues(sinkName, "deleted").Add(float64(deleted))
}

// RelayDone implements relay.Observer.
func (o *Observer) RelayDone(sender, outcome string, items int) {
	o.relayItems.WithLabelValues(sender, outcome).Add(float64(items))
}

// RelayCompared implements relay.Observer.
func (o *Observer) RelayCompared(sender string, differing int) {
	o.relayFound.WithLabelValues(sender).Add(float64(differing))
}
