# Asks the gateway whether a tool may run, or says hello: run by Codex as `bash hook.sh EVENT`, with its input on
# standard input. Everything but a clear yes ends with status 2 and a text on standard error: of a hook that ends in any
# other way, or says nothing, Codex runs the tool. The address and the token come from the environment.
export LC_ALL=C
set +o posix  # there, an address that nobody listens at would end this script with status 1
nothing='outlast gave no answer, so nothing may run.'
deny() {
  case $1 in
    *[![:space:]]*) printf '%s\n' "$1" >&2 ;;
    *) printf '%s\n' "$nothing" >&2 ;;
  esac
  exit 2
}
trap '' PIPE  # who closes the connection under us must not end this script
trap 'deny "outlast could not be asked, so nothing may run."' HUP INT QUIT TERM
trap 'case $? in 0 | 2) ;; *) deny "$nothing" ;; esac' EXIT
[ -n "$OUTLAST_HOOKS_URL" ] && [ -n "$OUTLAST_ATTEMPT_TOKEN" ] || deny 'outlast: this hook was started without its address.'
place=${OUTLAST_HOOKS_URL#http://}
host=${place%%/*}
body=$(</dev/stdin)
{ exec 3<>"/dev/tcp/${host%:*}/${host##*:}"; } 2>/dev/null || deny 'outlast cannot be reached, so nothing may run.'
printf 'POST /%s/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
  "${place#*/}" "$1" "$host" "$OUTLAST_ATTEMPT_TOKEN" "${#body}" "$body" >&3 || deny 'outlast cannot be reached, so nothing may run.'
IFS= read -r -d '' -u 3 answer
answer=${answer#*$'\r\n\r\n'}
[ "$answer" = '{"outlast":"let"}' ] && exit 0
why=${answer#*'"reason":"'}
[ "$why" != "$answer" ] || why=$nothing
deny "${why%%'"'*}"
