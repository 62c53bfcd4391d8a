package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/pawlsync/pawl/test/e2e/servers"
)

// spicedb is somebody else who uses SpiceDB, through its HTTP gateway.
type spicedb struct{ *servers.SpiceDB }

const watering = "configmap:garden/watering"

// checks are questions about the ConfigMap, with what the desired state and the
// schema mean to be answered.
var checks = []struct {
	permission, user string
	allowed          bool
}{
	{"edit", "anne", true},  // the owner
	{"edit", "carol", true}, // owner of the namespace
	{"view", "bob", true},   // viewer of the namespace
	{"edit", "bob", false},
	{"view", "mallory", false},
}

// The gateway's JSON.
type (
	zedObject struct {
		Type string `json:"objectType"`
		ID   string `json:"objectId"`
	}
	zedSubject struct {
		Object   zedObject `json:"object"`
		Relation string    `json:"optionalRelation,omitempty"`
	}
	zedRelationship struct {
		Resource zedObject  `json:"resource"`
		Relation string     `json:"relation"`
		Subject  zedSubject `json:"subject"`
	}
	zedToken struct {
		Token string `json:"token"`
	}
)

func (r zedRelationship) String() string {
	return fmt.Sprintf("%s:%s#%s@%s:%s", r.Resource.Type, r.Resource.ID, r.Relation, r.Subject.Object.Type, r.Subject.Object.ID)
}

// objectOf reads type:id.
func objectOf(s string) (o zedObject) {
	o.Type, o.ID, _ = strings.Cut(s, ":")
	return o
}

// latest asks for what is there now, whatever is cached.
var latest = map[string]any{"fullyConsistent": true}

// post calls the gateway and returns its answer.
func (z *spicedb) post(ctx context.Context, path string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, z.HTTP+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+z.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("POST %s: %s: %s", path, res.Status, answer)
	}
	return answer, err
}

func (z *spicedb) writeSchema(ctx context.Context, schema string) error {
	_, err := z.post(ctx, "/v1/schema/write", map[string]any{"schema": schema})
	return err
}

// allowed checks a permission of a user on an object.
func (z *spicedb) allowed(ctx context.Context, object, permission, user string, consistency any) (bool, error) {
	answer, err := z.post(ctx, "/v1/permissions/check", map[string]any{
		"consistency": consistency, "resource": objectOf(object), "permission": permission,
		"subject": zedSubject{Object: zedObject{"user", user}},
	})
	if err != nil {
		return false, err
	}
	var a struct {
		Permissionship string `json:"permissionship"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return false, err
	}
	switch a.Permissionship {
	case "PERMISSIONSHIP_HAS_PERMISSION":
		return true, nil
	case "PERMISSIONSHIP_NO_PERMISSION":
		return false, nil
	}
	return false, fmt.Errorf("SpiceDB answers %q to a check", a.Permissionship)
}

// read returns an object's relationships, sorted; those of all objects of a type
// where it has no ID.
func (z *spicedb) read(ctx context.Context, o zedObject) (rows []string, err error) {
	answer, err := z.post(ctx, "/v1/relationships/read", map[string]any{
		"consistency":        latest,
		"relationshipFilter": map[string]any{"resourceType": o.Type, "optionalResourceId": o.ID},
	})
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(answer))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Result struct {
				Relationship zedRelationship `json:"relationship"`
			} `json:"result"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%w: %s", err, lines.Bytes())
		}
		rows = append(rows, line.Result.Relationship.String())
	}
	slices.Sort(rows)
	return rows, lines.Err()
}

// differs says where an object has not exactly the relationships of a payload, or
// returns nil.
func (z *spicedb) differs(ctx context.Context, relationships []string) error {
	want := slices.Sorted(slices.Values(relationships))
	if len(want) == 0 {
		return errors.New("a resource has no relationships, and the demo can't tell its object")
	}
	object, _, _ := strings.Cut(want[0], "#")
	got, err := z.read(ctx, objectOf(object))
	if err != nil {
		return err
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("SpiceDB has %q, and desired is %q", got, want)
	}
	return nil
}

// write writes one relationship and removes others, in one request, and returns its answer.
func (z *spicedb) write(ctx context.Context, touch zedRelationship, remove ...zedRelationship) ([]byte, error) {
	updates := []any{map[string]any{"operation": "OPERATION_TOUCH", "relationship": touch}}
	for _, r := range remove {
		updates = append(updates, map[string]any{"operation": "OPERATION_DELETE", "relationship": r})
	}
	return z.post(ctx, "/v1/relationships/write", map[string]any{"updates": updates})
}

// takeOver makes mallory the ConfigMap's owner, and shows what that meant in the
// moment after, which Pawl may have ended already.
func (z *spicedb) takeOver(ctx context.Context) error {
	owner := func(user string) zedRelationship {
		return zedRelationship{Resource: objectOf(watering), Relation: "owner", Subject: zedSubject{Object: zedObject{"user", user}}}
	}
	answer, err := z.write(ctx, owner("mallory"), owner("anne"))
	if err != nil {
		return err
	}
	var a struct {
		WrittenAt zedToken `json:"writtenAt"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return err
	}
	then := map[string]any{"atExactSnapshot": a.WrittenAt}
	for _, c := range []struct {
		user string
		want bool
	}{{"anne", false}, {"mallory", true}} {
		got, err := z.allowed(ctx, watering, "edit", c.user, then)
		if err != nil {
			return err
		}
		tell(watering, "edit", c.user, got)
		if got != c.want {
			return errors.New("the change of the relationships changed nothing")
		}
	}
	return nil
}

// tell prints a check as it was answered.
func tell(object, permission, user string, allowed bool) {
	fmt.Printf("  may user:%-8s %s %s?  %s\n", user, permission, object, yesNo(allowed))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
