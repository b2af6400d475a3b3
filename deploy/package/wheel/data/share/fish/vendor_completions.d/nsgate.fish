# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_nsgate_global_optspecs
    string join \n h/help V/version
end

function __fish_nsgate_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_nsgate_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_nsgate_using_subcommand
    set -l cmd (__fish_nsgate_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c nsgate -n "__fish_nsgate_needs_command" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_needs_command" -s V -l version -d 'Print version'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "serve" -d 'Run the gateway until SIGTERM'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "check" -d 'Report every problem of a configuration; exit 1 if there is one that keeps the gateway from starting'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "schema" -d 'Print the JSON Schema of the configuration'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "explain" -d 'Say which mount and backend serve an identifier, and what a caller may do there'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "status" -d 'Say whether all is well, and if not what a person has to do; exit 1 if a person has to act'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "health" -d 'Ask a running gateway whether it can serve; exit 1 if not. For images and load balancers; needs no token'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "reload" -d 'Have a running gateway read its configuration again; exit 1 if it refuses'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "batches" -d 'Look at the batches that are not over, and decide what waits for a person'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "gateways" -d 'List the gateways that share a batch log, and which one owns it'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "log" -d 'Install a batch log in PostgreSQL, or move a batch log to another place'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "dev-token" -d 'Print a signed token for trials; the first time, make a key pair and jwks.json in a folder'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "demo" -d 'Run the guided tour of the Python package: catalogs, a gateway and a client on this machine'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "completions" -d 'Print the completions of a shell'
complete -c nsgate -n "__fish_nsgate_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nsgate -n "__fish_nsgate_using_subcommand serve" -l config -d 'The configuration file' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand serve" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand check" -l config -d 'The configuration file' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand check" -l format -d 'The form of the result' -r -f -a "text\t'A line for each problem, as compilers write them, and `ok` if there is no error'
json\t'One JSON document'
github\t'Workflow commands of GitHub Actions, which mark the lines in a pull request'"
complete -c nsgate -n "__fish_nsgate_using_subcommand check" -l online -d 'Ask each catalog, too, and a batch log in PostgreSQL: whether it answers, and whether batches can work with it'
complete -c nsgate -n "__fish_nsgate_using_subcommand check" -l json -d 'Print JSON, as `--format json` does'
complete -c nsgate -n "__fish_nsgate_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c nsgate -n "__fish_nsgate_using_subcommand schema" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand explain" -l config -d 'The configuration file' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand explain" -l delimiter -d 'The text between the names' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand explain" -l token -d 'Say what the caller with this token may do; `-` reads it from standard input. The token is verified, never printed' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand explain" -l claim -d 'Say what a caller whose token has this claim (and others, as often as given) may do; the value is JSON or, if it is not, text' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand explain" -l scope -d 'Say what a caller whose token has this scope (and others, as often as given) may do' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand explain" -l online -d 'Fetch the keys of the token\'s issuer, if they are behind an address'
complete -c nsgate -n "__fish_nsgate_using_subcommand explain" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand status" -l admin -d 'The gateway\'s admin address' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand status" -l token -d 'The gateway\'s `admin.token`, if it has one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand status" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand status" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand status" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand status" -l json -d 'Print the gateway\'s own JSON, for programs'
complete -c nsgate -n "__fish_nsgate_using_subcommand status" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand health" -l url -d 'The admin address; or a whole address to ask, such as http://127.0.0.1:8080/healthz' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand health" -l config -d 'Take the admin address from this configuration, on this machine' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand health" -l timeout -d 'The longest wait for the answer, such as 500ms or 4s' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand health" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand health" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand health" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand health" -l live -d 'Ask only whether the process lives, not whether it can serve'
complete -c nsgate -n "__fish_nsgate_using_subcommand health" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand reload" -l admin -d 'The gateway\'s admin address' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand reload" -l token -d 'The gateway\'s `admin.token`, if it has one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand reload" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand reload" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand reload" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand reload" -l json -d 'Print the gateway\'s own JSON, for programs'
complete -c nsgate -n "__fish_nsgate_using_subcommand reload" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -l admin -d 'The gateway\'s admin address' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -l token -d 'The gateway\'s `admin.token`, if it has one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -l json -d 'Print the gateway\'s own JSON, for programs'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -f -a "list" -d 'List the batches that are not over, and what each waits for'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -f -a "watch" -d 'Follow the list until Ctrl-C, also over a restart of the gateway'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -f -a "show" -d 'Show each entry of one batch, what is the matter with it, and what can be done'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -f -a "resolve" -d 'Decide what a batch cannot decide by itself; `show` says what each decision does'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and not __fish_seen_subcommand_from list watch show resolve help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from list" -l admin -d 'The gateway\'s admin address' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from list" -l token -d 'The gateway\'s `admin.token`, if it has one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from list" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from list" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from list" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from list" -l json -d 'Print the gateway\'s own JSON, for programs'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from watch" -l interval -d 'The time between two looks, such as 500ms or 2s' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from watch" -l admin -d 'The gateway\'s admin address' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from watch" -l token -d 'The gateway\'s `admin.token`, if it has one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from watch" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from watch" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from watch" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from watch" -l json -d 'Print the gateway\'s own JSON, for programs'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from watch" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from show" -l admin -d 'The gateway\'s admin address' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from show" -l token -d 'The gateway\'s `admin.token`, if it has one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from show" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from show" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from show" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from show" -l json -d 'Print the gateway\'s own JSON, for programs'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l who -d 'The operator who decides; kept in the batch log [default: $USER, or $LOGNAME]' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l why -d 'The reason; kept in the batch log' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l admin -d 'The gateway\'s admin address' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l token -d 'The gateway\'s `admin.token`, if it has one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l commit -d 'Let be what is there: it becomes visible, and its tables unlock'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l abort -d 'Abort what is undecided; delete on your word what could not be proven to be the batch\'s'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -l json -d 'Print the gateway\'s own JSON, for programs'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from resolve" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the batches that are not over, and what each waits for'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from help" -f -a "watch" -d 'Follow the list until Ctrl-C, also over a restart of the gateway'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show each entry of one batch, what is the matter with it, and what can be done'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from help" -f -a "resolve" -d 'Decide what a batch cannot decide by itself; `show` says what each decision does'
complete -c nsgate -n "__fish_nsgate_using_subcommand batches; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nsgate -n "__fish_nsgate_using_subcommand gateways" -l admin -d 'The gateway\'s admin address' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand gateways" -l token -d 'The gateway\'s `admin.token`, if it has one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand gateways" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand gateways" -l certificate -d 'The certificate shown to the gateway (PEM), if it wants one' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand gateways" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand gateways" -l json -d 'Print the gateway\'s own JSON, for programs'
complete -c nsgate -n "__fish_nsgate_using_subcommand gateways" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and not __fish_seen_subcommand_from prepare move help" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and not __fish_seen_subcommand_from prepare move help" -f -a "prepare" -d 'Install the schema, or bring it up to date, as a user who may create it'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and not __fish_seen_subcommand_from prepare move help" -f -a "move" -d 'Move all batches to an empty log while no gateway runs; afterwards no gateway can use the old one'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and not __fish_seen_subcommand_from prepare move help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from prepare" -l grant -d 'The user of the gateway, who gets the rights that it needs' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from prepare" -l schema -d 'The schema, as in `batch.schema`' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from prepare" -l password -d 'The user\'s password, if the server asks for one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from prepare" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from prepare" -l certificate -d 'The certificate shown to the server (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from prepare" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from prepare" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from move" -l from -d 'The log: a file, or a database' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from move" -l to -d 'The new log: a file that does not exist, or a database with an empty schema' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from move" -l schema -d 'The schema, as in `batch.schema`' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from move" -l password -d 'The user\'s password, if the server asks for one; other users of this machine cannot see the variable' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from move" -l ca -d 'Authorities trusted instead of the system\'s (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from move" -l certificate -d 'The certificate shown to the server (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from move" -l private-key -d 'Its private key (PEM)' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from move" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "prepare" -d 'Install the schema, or bring it up to date, as a user who may create it'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "move" -d 'Move all batches to an empty log while no gateway runs; afterwards no gateway can use the old one'
complete -c nsgate -n "__fish_nsgate_using_subcommand log; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nsgate -n "__fish_nsgate_using_subcommand dev-token" -l dir -d 'The folder of the key pair and of jwks.json' -r -F
complete -c nsgate -n "__fish_nsgate_using_subcommand dev-token" -l issuer -d 'The claim `iss`' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand dev-token" -l audience -d 'The claim `aud`' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand dev-token" -l subject -d 'The claim `sub`' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand dev-token" -l scope -d 'The claim `scope`: words separated by spaces' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand dev-token" -l claim -d 'A further claim; the value is JSON or, if it is not, text' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand dev-token" -l ttl -d 'The lifetime of the token, such as 15m, 1h or 30d' -r
complete -c nsgate -n "__fish_nsgate_using_subcommand dev-token" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand completions" -s h -l help -d 'Print help'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "serve" -d 'Run the gateway until SIGTERM'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "check" -d 'Report every problem of a configuration; exit 1 if there is one that keeps the gateway from starting'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "schema" -d 'Print the JSON Schema of the configuration'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "explain" -d 'Say which mount and backend serve an identifier, and what a caller may do there'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "status" -d 'Say whether all is well, and if not what a person has to do; exit 1 if a person has to act'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "health" -d 'Ask a running gateway whether it can serve; exit 1 if not. For images and load balancers; needs no token'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "reload" -d 'Have a running gateway read its configuration again; exit 1 if it refuses'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "batches" -d 'Look at the batches that are not over, and decide what waits for a person'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "gateways" -d 'List the gateways that share a batch log, and which one owns it'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "log" -d 'Install a batch log in PostgreSQL, or move a batch log to another place'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "dev-token" -d 'Print a signed token for trials; the first time, make a key pair and jwks.json in a folder'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "demo" -d 'Run the guided tour of the Python package: catalogs, a gateway and a client on this machine'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "completions" -d 'Print the completions of a shell'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and not __fish_seen_subcommand_from serve check schema explain status health reload batches gateways log dev-token demo completions help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and __fish_seen_subcommand_from batches" -f -a "list" -d 'List the batches that are not over, and what each waits for'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and __fish_seen_subcommand_from batches" -f -a "watch" -d 'Follow the list until Ctrl-C, also over a restart of the gateway'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and __fish_seen_subcommand_from batches" -f -a "show" -d 'Show each entry of one batch, what is the matter with it, and what can be done'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and __fish_seen_subcommand_from batches" -f -a "resolve" -d 'Decide what a batch cannot decide by itself; `show` says what each decision does'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "prepare" -d 'Install the schema, or bring it up to date, as a user who may create it'
complete -c nsgate -n "__fish_nsgate_using_subcommand help; and __fish_seen_subcommand_from log" -f -a "move" -d 'Move all batches to an empty log while no gateway runs; afterwards no gateway can use the old one'
