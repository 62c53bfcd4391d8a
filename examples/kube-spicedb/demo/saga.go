package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// rolledBack is the exit code of a saga that left nothing.
const rolledBack = 6

// create runs a saga that commits.
func (d *demo) create(ctx context.Context) error {
	d.say("A namespace and its owner's grant, both or neither: a saga, whose steps are a template of pawl.yaml.")
	if err := d.command(ctx, createNamespace("make-orchard", "orchard", "carol")...); err != nil {
		return err
	}
	d.sagas = append(d.sagas, "orchard")
	return d.both(ctx, "orchard", "carol")
}

// refuse runs a saga whose second step the API server refuses.
func (d *demo) refuse(ctx context.Context) error {
	d.say("Somebody else has the namespace already. The grant is written first, and must not stay:")
	const path = "/api/v1/namespaces/meadow"
	theirs, err := d.cluster.call(ctx, "POST", "/api/v1/namespaces", "application/json", object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "meadow"},
	})
	if err != nil {
		return err
	}
	if err := d.fails(ctx, rolledBack, createNamespace("make-meadow", "meadow", "mallory")...); err != nil {
		return err
	}
	if err := d.command(ctx, "saga", "explain", "make-meadow"); err != nil {
		return err
	}
	now, err := d.cluster.get(ctx, path)
	if err != nil {
		return err
	}
	fmt.Printf("  GET %s: version %s, as before\n", path, now.version())
	if now.version() != theirs.version() {
		return fmt.Errorf("the saga changed the namespace of somebody else, which had version %s", theirs.version())
	}
	if err := d.noGrant(ctx, "meadow", "mallory"); err != nil {
		return err
	}
	_, err = d.cluster.call(ctx, "DELETE", path, "", nil)
	return err
}

// refuseDeletion runs a saga whose first step deletes, and whose second is refused.
func (d *demo) refuseDeletion(ctx context.Context) error {
	d.say("Nobody can delete the namespace default. Carol's grant on it is deleted first, and must come back:")
	grant := zedRelationship{
		Resource: objectOf("namespace:default"), Relation: "owner", Subject: zedSubject{Object: zedObject{"user", "carol"}},
	}
	if _, err := d.spicedb.write(ctx, grant); err != nil {
		return err
	}
	if err := d.fails(ctx, rolledBack, deleteNamespace("default")...); err != nil {
		return err
	}
	if err := d.spicedb.differs(ctx, []string{grant.String()}); err != nil {
		return err
	}
	fmt.Println("  SpiceDB has", grant)
	return d.released(ctx)
}

// die has the daemon killed between the two writes of a saga.
func (d *demo) die(ctx context.Context) error {
	const path, id, user = "/api/v1/namespaces/vineyard", "make-vineyard", "carol"
	d.say("The daemon is started anew, to be killed (SIGKILL) when the grant is written and the namespace is not:")
	if err := d.daemon.stop(); err != nil {
		return err
	}
	var err error
	if d.daemon, err = d.startDaemon(ctx, "after write 1=kill"); err != nil {
		return err
	}
	const unreachable = 5
	run := createNamespace(id, "vineyard", user)
	if err := d.fails(ctx, unreachable, run...); err != nil {
		return err
	}
	if err := d.daemon.killed(ctx); err != nil {
		return err
	}
	d.daemon = nil
	if err := d.cluster.absent(ctx, path); err != nil {
		return err
	}
	if got, err := d.may(ctx, "vineyard", user); err != nil || !got {
		return errors.Join(err, errors.New("the daemon died before it wrote the grant, which proves nothing"))
	}
	fmt.Println("  One without the other, and nobody runs who knows.")

	d.say("The next daemon ends it by itself. The grant bears the saga's mark, so it is not taken for somebody else's:")
	if d.daemon, err = d.startDaemon(ctx, ""); err != nil {
		return err
	}
	if err := d.command(ctx, "saga", "wait", id); err != nil {
		return err
	}
	d.sagas = append(d.sagas, "vineyard")
	if err := d.both(ctx, "vineyard", user); err != nil {
		return err
	}

	d.say("Who lost the connection runs the same again, under the same id, and is told the outcome:")
	return d.command(ctx, run...)
}

// removeNamespace deletes by a saga what one created, and waits until nothing is left.
func (d *demo) removeNamespace(ctx context.Context, name string) error {
	if err := d.command(ctx, deleteNamespace(name)...); err != nil {
		return err
	}
	path := "/api/v1/namespaces/" + name
	if err := until(ctx, func() error { return d.cluster.absent(ctx, path) }); err != nil {
		return err
	}
	return d.noGrant(ctx, name, "carol")
}

// createNamespace and deleteNamespace are the commands that run the templates.
func createNamespace(id, name, owner string) []string {
	return []string{"saga", "run", "--id", id, "--template", "create-namespace",
		"--param", "namespace=" + name, "--param", "owner=" + owner}
}

func deleteNamespace(name string) []string {
	return []string{"saga", "run", "--template", "delete-namespace", "--param", "namespace=" + name}
}

// both fails unless the namespace is there and its only relationship is the owner's.
func (d *demo) both(ctx context.Context, name, owner string) error {
	manifest := object{"kind": "Namespace", "metadata": map[string]any{"name": name}, "status": map[string]any{"phase": "Active"}}
	if err := d.cluster.differs(ctx, manifest); err != nil {
		return err
	}
	fmt.Printf("  GET /api/v1/namespaces/%s: it is there\n", name)
	if got, err := d.may(ctx, name, owner); err != nil || !got {
		return errors.Join(err, fmt.Errorf("the namespace %s is there, and its owner's grant is not", name))
	}
	if err := d.spicedb.differs(ctx, []string{"namespace:" + name + "#owner@user:" + owner}); err != nil {
		return err
	}
	return d.released(ctx)
}

// noGrant fails if the namespace has a relationship.
func (d *demo) noGrant(ctx context.Context, name, user string) error {
	got, err := d.may(ctx, name, user)
	if err != nil {
		return err
	}
	rows, err := d.spicedb.read(ctx, objectOf("namespace:"+name))
	if err != nil {
		return err
	}
	fmt.Printf("  relationships of namespace:%s: %d\n", name, len(rows))
	if got || len(rows) > 0 {
		return fmt.Errorf("grants are left: %q", rows)
	}
	return d.released(ctx)
}

// may checks and tells whether the user may edit the namespace.
func (d *demo) may(ctx context.Context, namespace, user string) (bool, error) {
	object := "namespace:" + namespace
	got, err := d.spicedb.allowed(ctx, object, "edit", user, latest)
	if err == nil {
		tell(object, "edit", user, got)
	}
	return got, err
}

// released waits until every saga has let go of its resources, which is soon after
// its outcome is told, and fails if one left a lock in SpiceDB.
func (d *demo) released(ctx context.Context) error {
	if err := until(ctx, func() error {
		raw, err := d.output(ctx, "saga", "list", "--open", "-o", "json")
		if err != nil {
			return err
		}
		var open struct {
			Items []json.RawMessage `json:"items"`
		}
		if err = json.Unmarshal(raw, &open); err == nil && len(open.Items) > 0 {
			err = fmt.Errorf("sagas have not ended: %s", raw)
		}
		return err
	}); err != nil {
		return err
	}
	rows, err := d.spicedb.read(ctx, zedObject{Type: "lock"})
	if err == nil && len(rows) > 0 {
		err = fmt.Errorf("locks are left: %q", rows)
	}
	return err
}
