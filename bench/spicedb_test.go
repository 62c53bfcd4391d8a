package main

import (
	"strings"
	"testing"
	"time"

	v1 "github.com/authzed/authzed-go/proto/authzed/api/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pawlsync/pawl/plugins/spicedb/wire"
)

// The adapter's messages are written by hand; SpiceDB's own client says what they mean.

// decoded fails unless b is the message want, field by field.
func decoded(t *testing.T, what string, b []byte, got, want proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(b, got); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// theirRow has every field, and no two of one value.
func theirRow(t *testing.T) *v1.Relationship {
	context, err := structpb.NewStruct(map[string]any{
		"zone": "utc", "from": 9.5, "big": -4e300, "on": true, "off": false, "none": nil,
		"list": []any{1.0, "two", []any{}, map[string]any{"b": 1.0, "a": 2.0}}, "nested": map[string]any{"z": "", "a": map[string]any{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &v1.Relationship{
		Resource: &v1.ObjectReference{ObjectType: "tenant/document", ObjectId: "readme"}, Relation: "viewer",
		Subject:           &v1.SubjectReference{Object: &v1.ObjectReference{ObjectType: "group", ObjectId: "eng"}, OptionalRelation: "member"},
		OptionalCaveat:    &v1.ContextualizedCaveat{CaveatName: "office_hours", Context: context},
		OptionalExpiresAt: timestamppb.New(time.Unix(1893456000, 123456000)),
	}
}

func TestSpiceDBRowsMeanTheSameToTheirClient(t *testing.T) {
	theirs := theirRow(t)
	cursor := strings.Repeat("c", 300)
	b, err := proto.Marshal(&v1.ReadRelationshipsResponse{ReadAt: &v1.ZedToken{Token: "t"}, Relationship: theirs, AfterResultCursor: &v1.Cursor{Token: cursor}})
	if err != nil {
		t.Fatal(err)
	}
	row, next, err := wire.ReadRow(b)
	if err != nil || next != cursor {
		t.Fatalf("%v, cursor %q", err, next)
	}
	plain := &v1.Relationship{Resource: theirs.Resource, Relation: theirs.Relation, Subject: theirs.Subject}
	decoded(t, "write", wire.AppendWrite(nil,
		[]wire.Update{{Op: wire.Create, Row: &row}, {Op: wire.Touch, Row: &row}, {Op: wire.Delete, Row: &row}},
		[]wire.Precondition{
			{MustMatch: true, Filter: wire.Filter{ResourceType: "document", ResourceIDPrefix: "re", Relation: "viewer"}},
			{Filter: wire.Filter{ResourceType: "document", ResourceID: "x", SubjectType: "user", SubjectID: "u", HasSubjectRelation: true}},
		}),
		&v1.WriteRelationshipsRequest{}, &v1.WriteRelationshipsRequest{
			Updates: []*v1.RelationshipUpdate{
				{Operation: v1.RelationshipUpdate_OPERATION_CREATE, Relationship: theirs},
				{Operation: v1.RelationshipUpdate_OPERATION_TOUCH, Relationship: theirs},
				{Operation: v1.RelationshipUpdate_OPERATION_DELETE, Relationship: plain},
			},
			OptionalPreconditions: []*v1.Precondition{
				{Operation: v1.Precondition_OPERATION_MUST_MATCH, Filter: &v1.RelationshipFilter{ResourceType: "document", OptionalResourceIdPrefix: "re", OptionalRelation: "viewer"}},
				{Operation: v1.Precondition_OPERATION_MUST_NOT_MATCH, Filter: &v1.RelationshipFilter{ResourceType: "document", OptionalResourceId: "x",
					OptionalSubjectFilter: &v1.SubjectFilter{SubjectType: "user", OptionalSubjectId: "u", OptionalRelation: &v1.SubjectFilter_RelationFilter{}}}},
			},
		})
}

func TestSpiceDBReadsAndDeletesMeanTheSameToTheirClient(t *testing.T) {
	ours := wire.Filter{ResourceType: "document", ResourceID: "x", Relation: "viewer", SubjectType: "group", SubjectID: "g", SubjectRelation: "member", HasSubjectRelation: true}
	theirs := &v1.RelationshipFilter{ResourceType: "document", OptionalResourceId: "x", OptionalRelation: "viewer",
		OptionalSubjectFilter: &v1.SubjectFilter{SubjectType: "group", OptionalSubjectId: "g", OptionalRelation: &v1.SubjectFilter_RelationFilter{Relation: "member"}}}
	full := &v1.Consistency{Requirement: &v1.Consistency_FullyConsistent{FullyConsistent: true}}
	decoded(t, "first page", wire.AppendRead(nil, &ours, 7, ""), &v1.ReadRelationshipsRequest{},
		&v1.ReadRelationshipsRequest{Consistency: full, RelationshipFilter: theirs, OptionalLimit: 7})
	decoded(t, "next page", wire.AppendRead(nil, &ours, 1000, "c"), &v1.ReadRelationshipsRequest{},
		&v1.ReadRelationshipsRequest{Consistency: full, RelationshipFilter: theirs, OptionalLimit: 1000, OptionalCursor: &v1.Cursor{Token: "c"}})
	decoded(t, "delete", wire.AppendDelete(nil, &ours), &v1.DeleteRelationshipsRequest{}, &v1.DeleteRelationshipsRequest{RelationshipFilter: theirs})

	b, _ := proto.Marshal(&v1.WriteRelationshipsResponse{WrittenAt: &v1.ZedToken{Token: "written"}})
	if token, _, err := wire.ReadToken(b); token != "written" || err != nil {
		t.Errorf("%q, %v", token, err)
	}
	b, _ = proto.Marshal(&v1.DeleteRelationshipsResponse{DeletedAt: &v1.ZedToken{Token: "gone"}, RelationshipsDeletedCount: 300})
	if token, n, err := wire.ReadToken(b); token != "gone" || n != 300 || err != nil {
		t.Errorf("%q, %d, %v", token, n, err)
	}
}

func TestSpiceDBContextsHaveOneForm(t *testing.T) {
	context := theirRow(t).OptionalCaveat.Context
	var first string
	for range 50 { // a map is written in another order each time
		b, err := proto.Marshal(context)
		if err != nil {
			t.Fatal(err)
		}
		canonical, ok := wire.Canonical(b)
		if !ok {
			t.Fatal("it can't be read")
		}
		if first == "" {
			first = string(canonical)
			decoded(t, "context", canonical, &structpb.Struct{}, context)
		}
		if string(canonical) != first {
			t.Fatal("one context has two forms")
		}
	}
}

func TestSpiceDBErrorDetails(t *testing.T) {
	s, err := status.New(codes.FailedPrecondition, "no").WithDetails(
		&errdetails.ErrorInfo{Reason: "ERROR_REASON_UNKNOWN_DEFINITION", Domain: "authzed.com", Metadata: map[string]string{"definition_name": "folder", "a": "b"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(s.Proto())
	if err != nil {
		t.Fatal(err)
	}
	d := wire.ReadDetails(b)
	if d.Reason != "ERROR_REASON_UNKNOWN_DEFINITION" || d.Metadata["definition_name"] != "folder" || d.Metadata["a"] != "b" || d.RetryAfter != 1.5e9 {
		t.Errorf("%+v", d)
	}
}

func FuzzSpiceDBMessages(f *testing.F) {
	f.Add([]byte{0x12, 0x02, 0x08, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = wire.ReadRow(b)
		_, _, _ = wire.ReadToken(b)
		wire.ReadDetails(b)
		if c, ok := wire.Canonical(b); ok {
			if again, ok := wire.Canonical(c); !ok || string(again) != string(c) {
				t.Errorf("the form of %x is not its own: %x, %x", b, c, again)
			}
			if proto.Unmarshal(c, &structpb.Struct{}) != nil {
				t.Errorf("%x is no Struct: %x", b, c)
			}
		}
	})
}
