package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of commands in the help.
const (
	groupRun     = "run"
	groupCheck   = "check"
	groupOperate = "operate"
	groupOther   = "other"
)

// constructor makes one command.
type constructor func(*app) *cobra.Command

// commands lists the constructors of all commands. A command names its group in
// GroupID.
func commands() []constructor {
	return []constructor{
		newDemoCommand,
		newRunCommand,
		newIngestCommand,
		newProcessCommand,
		newServeCommand,
		newVerifyCommand,
		newStatusCommand,
		newMigrateCommand,
		newBenchCommand,
		newBenchStageCommand,
		newConfigCommand,
		newVersionCommand,
		newCompletionCommand,
	}
}

const website = "https://github.com/peil-stream/peil"

// root makes the tree of commands.
func (a *app) root(list []constructor) *cobra.Command {
	root := &cobra.Command{
		Use:   "peil",
		Short: "Turn public transport feeds into exact rows in SQL.",
		Example: `# See the whole job on a simulated city, with nothing to install.
peil demo

# Check the configuration here.
peil config check`,
		Version:       readVersion().line(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          a.chooseCommand,
		CompletionOptions: cobra.CompletionOptions{
			DisableDefaultCmd: true, // ours has examples and a group
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run"},
		&cobra.Group{ID: groupCheck, Title: "Check"},
		&cobra.Group{ID: groupOperate, Title: "Operate"},
		&cobra.Group{ID: groupOther, Title: "Other"},
	)
	root.SetHelpFunc(a.help)
	root.SetHelpCommand(newHelpCommand(a))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(cmd.CommandPath()+" --help lists the flags", "%w", flagError(err))
	})
	a.commonFlags(root)
	for _, construct := range list {
		root.AddCommand(construct(a))
	}
	for _, cmd := range root.Commands() {
		a.guard(cmd)
	}
	return root
}

// flagError says in words what is wrong with the value of a flag.
func flagError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	what := "a value that it takes"
	switch invalid.GetFlag().Value.Type() {
	case "uint64":
		what = "a whole number from 0 on"
	case "int":
		what = "a whole number"
	case "bool":
		what = "true or false"
	}
	return fmt.Errorf("--%s: %q is not %s", invalid.GetFlag().Name, invalid.GetValue(), what)
}

// commonFlags adds the flags that all commands share.
func (a *app) commonFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.BoolP("help", "h", false, "Show this help.")
	root.Flags().BoolP("version", "v", false, "Print the version.")
	flags.StringVar(&a.configFile, "config", "", "Configuration file.")
	file := flags.Lookup("config")
	annotate(file, annotatePlaceholder, "FILE")
	annotate(file, annotateEnv, "PEIL_CONFIG")
	annotate(file, annotateDefault, "peil.yaml, if there is one")
	common := []*pflag.Flag{
		file,
		settingFlag(flags, "data-dir", "data_dir", "DIR"),
		settingFlag(flags, "sink", "sink.url", "URL"),
		settingFlag(flags, "brokers", "kafka.brokers", "HOST:PORT,…"),
		settingFlag(flags, "listen", "http.listen", "HOST:PORT"),
	}
	for _, f := range common {
		annotate(f, annotateGroup, "Common flags")
	}

	flags.StringVar(&a.logLevel, "log-level", "", "Least level of the lines of the log: debug, info, warn or error.")
	flags.StringVar(&a.logFormat, "log-format", "", "Form of the log: text, json, or auto, which is text on a terminal.")
	for _, s := range []struct {
		name, placeholder, env, preset string
		words                          []string
	}{
		{"log-level", "LEVEL", "PEIL_LOG_LEVEL", "info", []string{"debug", "info", "warn", "error"}},
		{"log-format", "FORMAT", "PEIL_LOG_FORMAT", "auto", []string{"auto", "text", "json"}},
	} {
		f := flags.Lookup(s.name)
		annotate(f, annotateGroup, "Log flags")
		annotate(f, annotatePlaceholder, s.placeholder)
		annotate(f, annotateEnv, s.env)
		annotate(f, annotateDefault, s.preset)
		completeWords(root, s.name, s.words)
	}
	if err := root.MarkPersistentFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // the flag was made above
	}
	if err := root.MarkPersistentFlagDirname("data-dir"); err != nil {
		panic(err) // the flag was made above
	}
}

// completeWords lets the shell complete the value of a flag.
func completeWords(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // a flag that does not exist, or is completed twice
	}
}

// guard makes the log before a command runs, and notes that it has begun.
func (a *app) guard(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if err := a.prepare(cmd); err != nil {
				return err
			}
			a.started = true
			return run(cmd, args)
		}
	}
	for _, child := range cmd.Commands() {
		a.guard(child)
	}
}

// chooseCommand runs a command that only has commands below it: without a word it
// shows its help, with one it says what was perhaps meant.
func (a *app) chooseCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		a.help(cmd, nil)
		return nil
	}
	hint := cmd.CommandPath() + " --help lists the commands"
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		slices.Sort(near)
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError(hint, "unknown command %q for %s", args[0], cmd.CommandPath())
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(cmd.CommandPath()+" --help shows how it is used", "%s takes no arguments, not %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func newHelpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "help [command]",
		Short:   "Show the help of a command.",
		Example: "peil help config check",
		GroupID: groupOther,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			found, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []string
			for _, c := range found.Commands() {
				if c.IsAvailableCommand() {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError("peil --help lists the commands", "no command %q", strings.Join(args, " "))
			}
			a.help(found, nil)
			return nil
		},
	}
}

// help prints the help of a command: a sentence, examples, usage, the commands
// below it, and its flags by group.
func (a *app) help(cmd *cobra.Command, _ []string) {
	var b strings.Builder
	fmt.Fprintln(&b, cmd.Short)
	if cmd.Example != "" {
		fmt.Fprintln(&b, "\nExamples:")
		for line := range strings.Lines(cmd.Example) {
			if line = strings.TrimSpace(line); line != "" {
				line = "  " + line
			}
			fmt.Fprintln(&b, line)
		}
	}
	fmt.Fprintln(&b, "\nUsage:")
	use := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		use = cmd.CommandPath() + " <command> [flags]"
	}
	fmt.Fprintln(&b, "  "+use)
	helpCommands(&b, cmd)
	helpFlags(&b, cmd)
	fmt.Fprintln(&b, "\nRead more at "+website)
	// Standard output may be closed; then nobody wants the help.
	_, _ = fmt.Fprint(a.stdout, b.String())
}

func helpCommands(b *strings.Builder, cmd *cobra.Command) {
	width := 0
	byGroup := map[string][]*cobra.Command{}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() || c.Name() == "help" {
			byGroup[c.GroupID] = append(byGroup[c.GroupID], c)
			width = max(width, len(c.Name()))
		}
	}
	section := func(title string, list []*cobra.Command) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(b, "\n%s:\n", title)
		for _, c := range list {
			fmt.Fprintf(b, "  %-*s  %s\n", width, c.Name(), c.Short)
		}
	}
	section("Commands", byGroup[""])
	for _, g := range cmd.Groups() {
		section(g.Title, byGroup[g.ID])
	}
}

// helpFlags prints a command's own flags first, then the shared ones by group.
func helpFlags(b *strings.Builder, cmd *cobra.Command) {
	const own = "Flags"
	order := []string{own}
	byGroup := map[string][]*pflag.Flag{}
	width := 0
	add := func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		group, ok := annotation(f, annotateGroup)
		if !ok {
			group = own
		}
		if !slices.Contains(order, group) {
			order = append(order, group)
		}
		byGroup[group] = append(byGroup[group], f)
		width = max(width, len([]rune(flagHead(f))))
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	for _, group := range order {
		if len(byGroup[group]) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n%s:\n", group)
		for _, f := range byGroup[group] {
			head := flagHead(f)
			fmt.Fprintf(b, "  %s%s  %s\n", head, strings.Repeat(" ", width-len([]rune(head))), wrap(flagDoc(f), width+4))
		}
	}
}

// flagHead gives -o, --output FORMAT.
func flagHead(f *pflag.Flag) string {
	head := "    --" + f.Name
	if f.Shorthand != "" {
		head = "-" + f.Shorthand + ", --" + f.Name
	}
	placeholder, ok := annotation(f, annotatePlaceholder)
	if !ok {
		placeholder, _ = pflag.UnquoteUsage(f)
	}
	if placeholder != "" {
		head += " " + placeholder
	}
	return head
}

// flagDoc gives what a flag does, its default and its variable.
func flagDoc(f *pflag.Flag) string {
	_, doc := pflag.UnquoteUsage(f)
	preset, ok := annotation(f, annotateDefault)
	if !ok && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "[]" && f.DefValue != "0s" {
		preset = f.DefValue
	}
	var notes []string
	if preset != "" {
		notes = append(notes, "default "+preset)
	}
	if env, ok := annotation(f, annotateEnv); ok {
		notes = append(notes, "env "+env)
	}
	if len(notes) > 0 {
		doc += " [" + strings.Join(notes, "; ") + "]"
	}
	return doc
}

// wrap breaks a text so that it fits a terminal when it begins at a column.
func wrap(text string, column int) string {
	const terminal = 100
	var b strings.Builder
	at := column
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case at+1+n > terminal:
			b.WriteString("\n" + strings.Repeat(" ", column))
			at = column
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
