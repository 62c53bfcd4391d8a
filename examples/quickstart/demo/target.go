package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"
)

// targetClient talks to the target, past the daemon.
type targetClient struct{ base string }

// targetStats is what of the target's statistics the demo reads.
type targetStats struct {
	Keys map[string]struct {
		Puts int `json:"puts"`
	} `json:"keys"`
}

func (c *targetClient) stats(ctx context.Context) (s targetStats, err error) {
	raw, err := c.read(ctx, "/control/stats")
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(raw), &s)
}

// list returns the keys of all objects.
func (c *targetClient) list(ctx context.Context) ([]string, error) {
	raw, err := c.read(ctx, "/objects")
	if err != nil {
		return nil, err
	}
	var objects []struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal([]byte(raw), &objects); err != nil {
		return nil, err
	}
	keys := make([]string, len(objects))
	for i, o := range objects {
		keys[i] = o.Key
	}
	return keys, nil
}

func (c *targetClient) get(ctx context.Context, key string) (string, error) {
	return c.read(ctx, "/objects/"+key)
}

// control tells the target how to behave.
func (c *targetClient) control(ctx context.Context, mode, delay string) error {
	body, err := json.Marshal(map[string]string{"mode": mode, "delay": delay})
	if err != nil {
		return err
	}
	res, err := request(ctx, http.MethodPost, c.base+"/control", string(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the target answered %s to the mode %s", res.Status, mode)
	}
	return nil
}

func (c *targetClient) read(ctx context.Context, path string) (string, error) {
	res, err := request(ctx, http.MethodGet, c.base+path, "")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the target answered %s to GET %s", res.Status, path)
	}
	return string(raw), err
}

var client = &http.Client{Timeout: 5 * time.Second}

func request(ctx context.Context, method, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// sameJSON compares by value.
func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
