package docs

// many gives the source manifests so much that to lose it is no small change.
const many = `for i in $(seq 30); do echo "{sink: web, key: many/$i, payload: $i}" >"manifests/$i.yaml"; done
pawl source rescan manifests; until pawl list web/many/ | grep -q many/30; do sleep 0.1; done
`

// commands is the reference of all commands, whose examples speak of one site.
var commands = page{
	apart: true,
	files: map[string]string{
		"pawl.yaml": config, "resources/people.yaml": people, "saga.yaml": saga,
		"hello.json": `{"text":"hello"}`, "config.json": `{"path":"/objects/{key}"}`,
	},
	stage: site + `pawl apply -f resources/ --wait
target -listen 127.0.0.1:8080 -dir others >other.log &
mkdir -p zsh .config/fish/completions; fpath=("" "$PWD/zsh"); export PAGE_DAEMON=yes
`,
	before: map[string]string{
		"pawl source confirm":  many + "rm manifests/*; until pawl source status manifests | grep -q held; do pawl source rescan manifests; sleep 0.2; done",
		"pawl source handover": `curl -sf -X PUT "http://127.0.0.1:7295/v1/sinks/web/resource?key=old" -d '{"payload": 1, "owner": "old-manifests"}'`,
		"pawl plugin run":      "cp my-things/my-things.wasm things.wasm; cp my-things/fixture.yaml fixture.yaml",
		"pawl run --config":    "stop",
		"pawl store backup -o": "daemon; rm -f monday.pawl",
		"pawl store restore":   "mv store old; rm -rf lib-new",
		"pawl token new":       "echo 'server: {token_file: tokens}' >>pawl.yaml",
		"pawl store import":    "stop; rm -rf lib left.ndjson; cp -r store lib",
		"--salvage --status":   "rm -rf lib; cp -r store lib; rm -f left.ndjson",
	},
	replace: map[string]string{"/var/lib/pawl": "lib"},
	skip: map[string]string{
		"pawl saga resolve":            "needs a saga that is stuck; test/saga has them",
		"pawl plugin test things.wasm": "takes a minute, and the real target is the reader's; test/tutorial runs the kit both ways",
	},
}
