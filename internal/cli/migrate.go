package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/peil-stream/peil"
)

func newMigrateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables in Postgres, or bring them up to date.",
		Example: `# As the owner of the schema, before processors with fewer rights start.
peil migrate --sink 'postgres://peil_owner@db.example/transit'`,
		GroupID: groupOperate,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := a.config(cmd)
			if err != nil {
				return err
			}
			from, to, err := peil.Migrate(cmd.Context(), l.Config, a.log)
			if err != nil {
				return explain(err)
			}
			text := fmt.Sprintf("the tables are up to date, schema version %d\n", to)
			if from != to {
				text = fmt.Sprintf("the tables were brought from schema version %d to %d\n", from, to)
			}
			_, err = fmt.Fprint(a.stdout, text)
			return err
		},
	}
}
