package cli

import (
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/internal/oci"
)

// pushedPlugin is what `pawl plugin push` prints.
type pushedPlugin struct {
	Ref    string `json:"ref"` // pinned
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

func (a *app) pluginPushCommand() *cobra.Command {
	var plainHTTP bool
	cmd := &cobra.Command{
		Use:   "push FILE REF",
		Short: "Put a plugin into an OCI registry",
		Long: `Push puts the plugin in FILE into a registry as REF, which is HOST/REPOSITORY:TAG,
and prints the reference that is pinned by its digest, and the file's SHA-256. The
same file always gets the same digest.

` + registryHelp,
		Args: exactly("FILE", "REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := a.registryOptions(cmd, plainHTTP)
			if err != nil {
				return err
			}
			module, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			pushed, err := oci.Push(cmd.Context(), args[1], module, options)
			if err != nil {
				return err
			}
			return a.print(pushedPlugin{Ref: pushed.Ref, SHA256: pushed.SHA256, Bytes: len(module)}, func() {
				fmt.Fprintf(a.Out, "pushed  %s\nsha256  %s\n", pushed.Ref, pushed.SHA256)
			})
		},
	}
	a.outputFlag(cmd)
	plainHTTPFlag(cmd, &plainHTTP)
	return cmd
}

func (a *app) pluginPullCommand() *cobra.Command {
	var plainHTTP bool
	var file, sha256 string
	cmd := &cobra.Command{
		Use:   "pull REF",
		Short: "Fetch a plugin from an OCI registry",
		Long: `Pull fetches a plugin, checks it and writes it to a file, whole or not at all. REF
is HOST/REPOSITORY:TAG, or HOST/REPOSITORY@sha256:DIGEST, which is pinned: what
comes must be exactly that. It prints the pinned reference, and the file's SHA-256
for plugins.<name>.sha256 of the configuration.

` + registryHelp,
		Args: exactly("REF"),
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := a.registryOptions(cmd, plainHTTP)
			if err != nil {
				return err
			}
			pulled, err := oci.Pull(cmd.Context(), args[0], options)
			if err != nil {
				return err
			}
			if sha256 != "" && !strings.EqualFold(sha256, pulled.SHA256) {
				return fmt.Errorf("pull %s: the plugin's SHA-256 is %s, not %s as --sha256 says; nothing was written", args[0], pulled.SHA256, sha256)
			}
			if file == "" {
				repository, _, _ := strings.Cut(pulled.Ref, "@")
				file = path.Base(repository) + ".wasm"
			}
			if err := oci.WriteFile(file, pulled.Module, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "pulled  %s\nsha256  %s\nfile    %s (%s)\n", pulled.Ref, pulled.SHA256, file, size(int64(len(pulled.Module))))
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write (default the repository's last part with .wasm, here)")
	cmd.Flags().StringVar(&sha256, "sha256", "", "what the plugin's SHA-256 must be, in hex")
	plainHTTPFlag(cmd, &plainHTTP)
	return cmd
}

const registryHelp = `Credentials are those of ` + "`docker login`" + `: $DOCKER_CONFIG/config.json or
~/.docker/config.json. Registries are spoken to over https; one on this machine's
loopback over plain HTTP.`

func plainHTTPFlag(cmd *cobra.Command, v *bool) {
	cmd.Flags().BoolVar(v, "plain-http", false, "speak plain HTTP to the registry (default for loopback alone; =false: never)")
}

// registryOptions says how registries are reached.
func (a *app) registryOptions(cmd *cobra.Command, plainHTTP bool) (oci.Options, error) {
	o := oci.Options{UserAgent: "pawl/" + a.version.Version, CredentialsFile: oci.DockerConfig(a.lookupEnv)}
	if cmd.Flags().Changed("plain-http") {
		if o.Scheme = "https"; plainHTTP {
			o.Scheme = "http"
		}
	}
	var err error
	o.TLS, err = a.tls.config()
	return o, err
}
