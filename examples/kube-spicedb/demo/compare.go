package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// resource is one that the files ask for.
type resource struct {
	Sink    string          `json:"sink"`
	Key     string          `json:"key"`
	Payload json.RawMessage `json:"payload"`
}

// readResources learns from pawl itself what the files ask for: applied to
// nothing, then shown.
func (d *demo) readResources(ctx context.Context, dir string) ([]resource, error) {
	raw, err := d.output(ctx, "apply", "-f", dir, "--dry-run", "-o", "json")
	if err != nil {
		return nil, err
	}
	var checked struct {
		Items []resource `json:"items"`
	}
	if err := json.Unmarshal(raw, &checked); err != nil {
		return nil, err
	}
	if len(checked.Items) == 0 {
		return nil, fmt.Errorf("%s asks for nothing", dir)
	}
	return checked.Items, nil
}

// differences holds the targets against the desired state, resource by resource,
// and returns all that differs.
func (d *demo) differences(ctx context.Context) error {
	var wrong []error
	for _, r := range d.desired {
		var err error
		switch r.Sink {
		case "cluster":
			var manifest object
			if err = json.Unmarshal(r.Payload, &manifest); err == nil {
				err = d.cluster.differs(ctx, manifest)
			}
		case "permissions":
			var payload struct {
				Relationships []string `json:"relationships"`
			}
			if err = json.Unmarshal(r.Payload, &payload); err == nil {
				err = d.spicedb.differs(ctx, payload.Relationships)
			}
		default:
			err = errors.New("the demo knows no such sink")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s/%s: %w", r.Sink, r.Key, err))
		}
	}
	return errors.Join(wrong...)
}

// compare shows what both targets say, and fails where that is not what is desired.
func (d *demo) compare(ctx context.Context) error {
	if err := d.cluster.show(ctx); err != nil {
		return err
	}
	var wrong []error
	for _, c := range checks {
		got, err := d.spicedb.allowed(ctx, watering, c.permission, c.user, latest)
		if err != nil {
			return err
		}
		tell(watering, c.permission, c.user, got)
		if got != c.allowed {
			wrong = append(wrong, fmt.Errorf("SpiceDB says %s where the desired state means %s", yesNo(got), yesNo(c.allowed)))
		}
	}
	if err := errors.Join(append(wrong, d.differences(ctx))...); err != nil {
		return err
	}
	fmt.Printf("  %d resources compared: both targets are at the desired state.\n", len(d.desired))
	return nil
}

// compareGone fails where anything of what was desired is left.
func (d *demo) compareGone(ctx context.Context) error {
	for _, path := range []string{wateringPath, namespacePath} {
		if err := d.cluster.absent(ctx, path); err != nil {
			return err
		}
	}
	for _, name := range []string{"namespace:garden", watering} {
		rows, err := d.spicedb.read(ctx, objectOf(name))
		if err != nil {
			return err
		}
		fmt.Printf("  relationships of %s: %d\n", name, len(rows))
		if len(rows) > 0 {
			return fmt.Errorf("relationships are left: %q", rows)
		}
	}
	// With its relationships every permission is gone.
	for _, user := range slices.Compact(userNames()) {
		got, err := d.spicedb.allowed(ctx, watering, "view", user, latest)
		if err != nil {
			return err
		}
		tell(watering, "view", user, got)
		if got {
			return fmt.Errorf("%s may still view what is deleted", user)
		}
	}
	fmt.Println("  Both targets hold nothing of it any more.")
	return nil
}

// userNames are those of checks, sorted.
func userNames() (names []string) {
	for _, c := range checks {
		names = append(names, c.user)
	}
	slices.Sort(names)
	return names
}
