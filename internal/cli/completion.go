package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func newCompletionCommand(a *app) *cobra.Command {
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        (*cobra.Command).GenZshCompletion,
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	}
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:     "completion bash|fish|powershell|zsh",
		Short:   "Print a script that lets a shell complete commands and flags.",
		GroupID: groupOther,
		Example: `# For this session of bash.
source <(peil completion bash)

# For every session of zsh.
peil completion zsh > "${fpath[1]}/_peil"`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(names, args[0]) {
				return usageError("as in peil completion bash", "completion takes one of %s", strings.Join(names, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := shells[args[0]](cmd.Root(), a.stdout); err != nil {
				return fmt.Errorf("write the completion: %w", err)
			}
			return nil
		},
	}
}
