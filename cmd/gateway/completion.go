package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"soapway/config"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func (c *cli) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "print what makes a shell complete this command",
		Long: `Prints a script that makes a shell complete commands, flags, the names of routes
and states. Load it in every shell, for example with bash or zsh:

  source <(gateway completion bash)`,
		ValidArgs: shells,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return &usageError{fmt.Sprintf("completion takes one shell, got %d", len(args)), "the shells are " + strings.Join(shells, ", ")}
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.stdout, true)
			case "zsh":
				return root.GenZshCompletion(c.stdout)
			case "fish":
				return root.GenFishCompletion(c.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.stdout)
			}
			return &usageError{fmt.Sprintf("completion: there is no shell %.40q", args[0]), "the shells are " + strings.Join(shells, ", ")}
		},
	}
}

// completeQueue makes the shell complete what the commands of queue take: routes by
// the configuration, and states.
func (c *cli) completeQueue(cmd *cobra.Command, f *queueFlags) {
	routes := func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.routeNames(f.config), cobra.ShellCompDirectiveNoFileComp
	}
	states := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return queueStates, cobra.ShellCompDirectiveNoFileComp
	}
	for _, sub := range cmd.Commands() {
		switch sub.Name() {
		case "ls", "pause", "resume", "flush", "hold", "release", "export":
			sub.ValidArgsFunction = routes
		}
		for _, flag := range []string{"route", "from", "to"} {
			if sub.Flags().Lookup(flag) != nil {
				_ = sub.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
					return routes(cmd, nil, typed)
				}) // the flag exists
			}
		}
		if sub.Flags().Lookup("state") != nil {
			_ = sub.RegisterFlagCompletionFunc("state", states)
		}
	}
}

// routeNames are the routes of a configuration, none if it cannot be read.
func (c *cli) routeNames(file string) (names []string) {
	cfg, err := c.load(file)
	if err != nil {
		return nil
	}
	for i := range cfg.Routes {
		names = append(names, routeName(&cfg.Routes[i]))
	}
	return names
}

// routeName is a route with what the shell shows beside it.
func routeName(r *config.Route) string { return r.Name + "\t" + string(r.Delivery) }
