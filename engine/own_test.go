package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
)

func TestR15b_WhatOneSourceOwnsNoOtherChanges(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ctx := b.t.Context()
		put := func(owner, payload string, takeOver bool) error {
			_, err := b.Put(ctx, engine.Put{Key: web("a"), Payload: []byte(payload), Owner: owner, TakeOver: takeOver})
			return err
		}
		remove := func(owner string, takeOver bool) error {
			_, err := b.Delete(ctx, engine.Delete{Key: web("a"), Owner: owner, TakeOver: takeOver})
			return err
		}
		if err := put("", `1`, false); err != nil {
			t.Fatal(err)
		}
		if err := put("files", `1`, false); err != nil {
			t.Errorf("what nobody owns can't be claimed: %v", err)
		}
		for what, err := range map[string]error{
			"other content of another source": put("cluster", `2`, false), "equal content of another source": put("cluster", `1`, false),
			"a put of nobody": put("", `2`, false), "a delete of another source": remove("cluster", false), "a delete of nobody": remove("", false),
		} {
			if !errors.Is(err, engine.ErrOwned) || !strings.Contains(err.Error(), `"files"`) {
				t.Errorf("%s: %v; want ErrOwned that names files", what, err)
			}
		}
		if err := put("cluster", `1`, true); err != nil {
			t.Errorf("it can't be taken over: %v", err)
		}
		if err := put("files", `1`, false); !errors.Is(err, engine.ErrOwned) || !strings.Contains(err.Error(), `"cluster"`) || !strings.Contains(err.Error(), `"files"`) {
			t.Errorf("%v; want ErrOwned that names both", err)
		}
		if err := remove("cluster", false); err != nil {
			t.Errorf("its owner can't delete it: %v", err)
		}
		if err := put("files", `1`, false); err != nil {
			t.Errorf("what its owner deleted is not free: %v", err)
		}
	})
}

func TestR15b_OwnershipIsHandedOver(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ctx := b.t.Context()
		first, err := b.Put(ctx, engine.Put{Key: web("a"), Payload: []byte(`1`), Owner: "files", Order: record.Order{Source: "files", Epoch: "e", Number: 9}})
		if err != nil {
			t.Fatal(err)
		}
		b.settle()
		if err := b.HandOver(ctx, web("a"), "elsewhere", "cluster"); !errors.Is(err, engine.ErrOwned) {
			t.Errorf("handed over by who does not own it: %v", err)
		}
		if err := b.HandOver(ctx, web("nothing"), "files", "cluster"); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("handed over what does not exist: %v", err)
		}
		for range 2 { // the second time it is done already
			if err := b.HandOver(ctx, web("a"), "files", "cluster"); err != nil {
				t.Fatal(err)
			}
		}
		owned := func(owner string) (names []string) {
			if err := b.Owned(ctx, owner, "", func(r engine.Resource) bool { names = append(names, r.Key.Name); return true }); err != nil {
				t.Fatal(err)
			}
			return names
		}
		if len(owned("files")) != 0 || len(owned("cluster")) != 1 {
			t.Errorf("files owns %q, cluster %q", owned("files"), owned("cluster"))
		}
		res, err := b.Put(ctx, engine.Put{Key: web("a"), Payload: []byte(`1`), Owner: "cluster", Order: record.Order{Source: "files", Epoch: "e", Number: 1}})
		if err != nil || res.Changed || res.Generation != first.Generation {
			t.Errorf("the new owner's own put: %+v, %v; want generation %d unchanged", res, err, first.Generation)
		}
		b.settle()
		b.wantOps("a", "apply")
	})
}

func TestR15b_ASourceDeletesOnlyWhatItOwns(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ctx := b.t.Context()
		b.put("nobodys", `1`)
		if _, err := b.Put(ctx, engine.Put{Key: web("own"), Payload: []byte(`1`), Owner: "files"}); err != nil {
			t.Fatal(err)
		}
		items := b.DeleteBatch(ctx, []engine.Delete{
			{Key: web("nobodys"), Owner: "files"}, {Key: web("own"), Owner: "files"}, {Key: web("missing"), Owner: "files"},
		})
		if !errors.Is(items[0].Err, engine.ErrOwned) || !strings.Contains(items[0].Err.Error(), `"files"`) {
			t.Errorf("of nobody's resource: %v, want ErrOwned", items[0].Err)
		}
		if items[1].Err != nil || items[1].Generation == 0 || !items[1].Changed {
			t.Errorf("of its own: %+v", items[1])
		}
		if !errors.Is(items[2].Err, engine.ErrNotFound) {
			t.Errorf("of one that is not there: %v", items[2].Err)
		}
		owners := map[string]string{}
		if err := b.Owners(ctx, func(key record.Key, owner string) bool { owners[key.Name] = owner; return true }); err != nil {
			t.Fatal(err)
		}
		if len(owners) != 1 || owners["nobodys"] != "" {
			t.Errorf("the owners are %v, want nobody of nobodys", owners)
		}
	})
}

func TestTheDeletionPolicyOfASourceStandsBehindTheResources(t *testing.T) {
	inBubble(t, nil, func(b *bench) {
		ctx := b.t.Context()
		for name, own := range map[string]record.DeletionPolicy{"plain": "", "own": record.DeleteTarget} {
			if _, err := b.Put(ctx, engine.Put{Key: web(name), Payload: []byte(`1`), Owner: "files", Deletion: own}); err != nil {
				t.Fatal(err)
			}
		}
		b.settle()
		for _, item := range b.DeleteBatch(ctx, []engine.Delete{
			{Key: web("plain"), Owner: "files", DeletionElse: record.Retain}, {Key: web("own"), Owner: "files", DeletionElse: record.Retain},
		}) {
			if item.Err != nil {
				t.Fatal(item.Err)
			}
		}
		b.settle()
		b.wantOps("plain", "apply")
		b.wantOps("own", "apply", "delete")
	})
}
