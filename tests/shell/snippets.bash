### quoting: escapes, single and double quotes
a='it is'; echo \$HOME "\$a" '$a' "$a" "a\"b" a\ b 'c"d'
### quoting: ANSI-C
printf '%s|' $'tab\there' $'nl\nx' $'\x41\102\u0043' $'it\'s' $'\e[0m' | od -An -c
### quoting: adjacent pieces join
x=1; echo pre"mid $x"'post $x'end
### pipeline: status of the last, negation, PIPESTATUS
true | false; echo $?; ! true; echo $?; false | true | (exit 3); echo "${PIPESTATUS[*]}"
### pipeline: pipefail
set -o pipefail; false | true; echo $?; set +o pipefail; false | true; echo $?
### pipeline: standard error too
{ echo out; echo err >&2; } |& sort
### pipeline: parts run in subshells
x=before; echo y | read x; echo $x; echo z | { read x; echo "within $x"; }; echo $x
### lists: and, or, groups
true && echo yes || echo no; false && echo yes || echo no; false || { echo a; false; } || echo b
### loop: until and while with break and continue
i=0; until ((i >= 6)); do ((i++)); ((i == 2)) && continue; ((i == 5)) && break; echo $i; done; echo end $i
### loop: for over words, quoted parameters, nothing
set -- 'a b' c; for x; do echo "<$x>"; done; for x in "$@" d; do printf '[%s]' "$x"; done; for x in; do echo never; done; echo
### loop: arithmetic for
for ((i = 0, j = 10; i < j; i += 3, j--)); do echo $i $j; done
### loop: nested break
for i in 1 2 3; do for j in a b c; do [ $j = b ] && continue 2; [ $i = 3 ] && break 2; echo $i$j; done; done
### loop: while reads lines
printf 'one two\nthree  four\nfive' | while read -r first rest || [ -n "$first" ]; do echo "$first:$rest"; done
### case: patterns, alternatives, fall through
for x in apple 42 Zed '' xy; do case $x in a*) echo a;; [0-9]*|[[:upper:]]*) echo digit or upper;; '') echo empty;; ??) echo two ;& nothing) echo fell;; *) echo other;; esac; done
### case: test the next pattern
case abc in a*) echo 1 ;;& *c) echo 2 ;;& x) echo 3 ;; *) echo 4;; esac
### if: elif and else
for n in -1 0 7; do if ((n < 0)); then echo neg; elif ((n == 0)); then echo zero; else echo pos; fi; done
### select is fed from a file
printf '2\n9\n' | (PS3='? '; select x in a b; do echo "got $x"; done) 2>/dev/null
### conditional: strings and patterns
[[ abc == a* && abc != "a*" && abc < abz && -n x && -z '' ]] && echo yes; [[ a == b || ! c == d ]]; echo $?
### conditional: regular expressions
[[ 'key = val 12' =~ ^([a-z]+)\ *=\ *(.*)\ ([0-9]+)$ ]] && printf '%s,' "${BASH_REMATCH[@]}"; re='^x+$'; [[ xxx =~ $re ]]; echo $?
### conditional: files
echo hi > f; mkdir d; ln -s f l; : > e; for t in -e -f -d -L -s -r; do for n in f d l e none; do test $t $n && printf '%s %s;' $t $n; done; done; echo; [ f -nt none ]; echo $?
### conditional: numbers and compound tests
[ 3 -lt 10 ] && [ ! 3 -gt 10 ] && test 5 -ne 6 -a 1 -eq 1 && echo ok; [ a = a -o b = c ]; echo $?; [ 1 -eq x ] 2>/dev/null; echo $?
### arithmetic: operators and bases
echo $((7 / 2)) $((-7 / 2)) $((-7 % 3)) $((2 ** 10)) $((1 << 4 | 3)) $((~5)) $((5 ^ 3)) $((0x1f)) $((017)) $((2#1011)) $((36#z))
### arithmetic: assignment, ternary, comma, increment
((x = 5, y = x++ + ++x)); echo $x $y $((x > 6 ? 1 : 0)) $((y <<= 2)) $((!x)) $((x && 0 || 1))
### arithmetic: variables without dollar, nested, let
a=3 b=a+1; echo $((b * 2)) $((a)); let 'c = a * a' d=c-1; echo $c $d; echo $(( $(echo 4) + a ))
### arithmetic: status and errors
((0)); echo $?; ((1)); echo $?; (echo $((1 / 0))) 2>/dev/null; echo $?
### parameter: defaults and alternatives
unset u; e=; echo "${u-d}" "${u:-d}" "${e-d}" "${e:-d}" "${u+s}" "${e+s}" "${e:+s}" "${u=now}" "$u"; (: "${none:?must be}") 2>/dev/null; echo $?
### parameter: length and substrings
s=abcdefgh; echo ${#s} ${s:2} ${s:2:3} ${s: -3} ${s: -3:2} ${s:1:-2}; set -- a b c d; echo "${@:2}" "${@:2:2}" "${*: -1}"
### parameter: removing prefixes and suffixes
p=/usr/local/lib/file.tar.gz; echo ${p##*/} ${p#*/} ${p%.*} ${p%%.*} ${p%/*}; set -- a.c b.c; echo "${@%.c}"
### parameter: replacing
s='foo bar foo'; echo "${s/foo/X}" "${s//foo/X}" "${s/#foo/Y}" "${s/%foo/Z}" "${s//o}" "${s//[aeiou]/_}"
### parameter: changing case
s='Hello World'; echo "${s^^}" "${s,,}" "${s^^[lo]}" "${s~~}"; t=abc; echo "${t^}" "${t^^b}"
### parameter: indirection and names
v=target target=deep; echo "${!v}"; ab1=1 ab2=2; echo ${!ab*}; for n in "${!ab@}"; do echo $n; done
### parameter: quoting and transformations
s="it's a \"b\""; printf '%s\n' "${s@Q}"; t='a\tb'; echo "${t@E}"; u=lower; echo "${u@U}" "${u@u}"; declare -i n=3; echo "${n@a}"
### parameter: positional, shift, special
set -- a 'b c' d; echo $# "$*" "$1" ${2}; shift 2; echo $# $1; f() { echo $# "$@" "$0" >/dev/null; echo "$#:$*"; }; f x 'y z'; echo $#
### parameter: IFS joins and splits
IFS=:; v='a:b::c'; set -- $v; echo $#; printf '<%s>' "$@"; echo; arr=(1 2 3); echo "${arr[*]}"; IFS=$' \t\n'; echo "${arr[*]}"
### expansion: braces
echo {a,b}{1,2} x{,y}z {1..5} {5..1..2} {a..e} {01..03} pre{,-{a,b}} {solo} {x..z..2}
### expansion: tilde
HOME=/h; echo ~ ~/x "~" a~ ; x=~/y; echo $x; PATH_LIKE=a:~/b; echo $PATH_LIKE
### expansion: command substitution
echo $(echo a; echo b) "$(printf 'x\ny\n\n')" `echo \`echo nested\`` "$(echo "q $(echo deep)")"; x=$(exit 7); echo $?
### expansion: word splitting
v='  a   b  '; echo $v; printf '<%s>' $v; printf '<%s>' "$v"; echo; e=; set -- $e "$e"; echo $#
### expansion: file names
touch b.txt a.txt c.log .hidden; mkdir d; touch d/e.txt; echo *.txt; echo *; echo .h*; echo */*.txt; echo none*; echo "*.txt"; echo [a-b].*
### expansion: extended patterns
shopt -s extglob
touch a1 a22 b1 c; echo a+([0-9]); echo @(a1|c); echo !(a*); s=aaabbb; echo ${s##+(a)} ${s/+(b)/X}; case foobar in foo?(bar|baz)) echo m;; esac
### expansion: options of file names
touch .dot x; shopt -s nullglob; echo none* end; shopt -u nullglob; shopt -s dotglob; echo *; shopt -u dotglob; shopt -s nocaseglob; echo X; set -f; echo *
### expansion: directories below
mkdir -p a/b; touch a/f a/b/g h; shopt -s globstar; echo **; echo **/g; for f in **/; do echo $f; done
### expansion: process substitution
diff <(printf '1\n2\n') <(printf '1\n2\n') && echo same; while read -r l; do echo "l=$l"; done < <(printf 'a\nb\n'); cat <(echo x) <(echo y)
### expansion: order, no re-expansion
a='$b' b=1; echo $a "$a"; eval echo $a; x='*'; echo "$x"; y="{1,2}"; echo $y
### redirection: files, append, clobber
echo one > f; echo two >> f; cat < f; set -C; echo three 2>/dev/null > f; echo $?; echo four >| f; cat f
### redirection: streams
f() { echo out; echo err >&2; }; f 2>/dev/null; f >/dev/null 2>&1; f > both 2>&1; cat both; f &> all; cat all; f 2>&1 >/dev/null
### redirection: here documents
x=1; cat <<A; cat <<'B'; cat <<-C
x is $x $(echo sub) \$x
A
x is $x
B
	tab gone
	C
### redirection: here strings
cat <<< "one $((1+1))"; read -r a b <<< 'x y z'; echo "$a|$b"; tr a-z A-Z <<< low
### redirection: descriptors
exec 3> out; echo to3 >&3; echo more >&3; exec 3>&-; cat out; exec 4< out; read -u 4 l; echo "got $l"; exec 4<&-
### redirection: of compound commands
for i in 1 2; do echo $i; done > f; { read a; read b; } < f; echo $a$b; while read -r x; do echo "<$x>"; done < f
### function: arguments, return, local
x=global; f() { local x=local y; echo $x "${y-unset}" $1; return $2; }; f a 5; echo $? $x
### function: recursion
fact() { (( $1 < 2 )) && echo 1 || echo $(( $1 * $(fact $(( $1 - 1 ))) )); }; fact 5
### function: recursion of some depth
down() { (($1 == 0)) && echo bottom || down $(($1 - 1)); }; down 10; down 40
### function: dynamic scope and unset
outer() { local v=outer; inner; echo $v; }; inner() { echo "sees $v"; v=changed; }; v=top; outer; echo $v; unset -f inner; inner 2>/dev/null; echo $?
### function: name references
f() { local -n ref=$1; ref+=(new); echo "${#ref[@]}"; }; arr=(a b); f arr; echo "${arr[@]}"
### function: environment of one call
f() { echo "${V-none}"; }; V=1 f; f; V=2 bash -c 'echo $V'; echo "${V-none}"
### function: FUNCNAME and caller's line
f() { echo "${FUNCNAME[0]} ${FUNCNAME[1]}"; }; g() { f; }; g
### array: indexed, sparse, append
a=(x y z); a[5]=w; a+=(v); echo "${#a[@]}" "${!a[@]}" "${a[@]}" "${a[-1]}" "${a[@]:1:2}"; unset 'a[1]'; echo "${a[@]}"; echo "${#a[0]}"
### array: associative
declare -A m=([one]=1 ['two words']=2); m[three]=3; for k in one 'two words' three; do echo "$k=${m[$k]}"; done; echo ${#m[@]}; unset 'm[one]'; [[ -v m[one] ]]; echo $?
### array: keys with blanks
declare -A m=([k 1]='v 1' ["k 2"]=v2); for k in "${!m[@]}"; do echo "$k=${m[$k]}"; done | sort
### array: all elements are changed
a=(one.c two.c); echo "${a[@]%.c}" "${a[@]/o/0}" "${a[@]^}"; b=("${a[@]}"); b[0]='x y'; printf '<%s>' "${b[@]}"; printf '<%s>' ${b[@]}; echo
### array: mapfile
printf 'l1\nl2\nl3\n' > f; mapfile -t lines < f; echo "${#lines[@]} ${lines[1]}"; mapfile -t -s 1 -n 1 some < f; echo "${some[@]}"; readarray -t -d , parts <<< 'a,b,c'; echo "${parts[0]}${parts[1]}"
### builtin: printf
printf '%5d|%-5s|%05.1f|%x|%o|%c|%%|%s\n' 42 ab 3.14159 255 8 xyz end; printf '%s-%s\n' a b c; printf '%b' 'a\tb\n'; printf '%q\n' 'a b$c'; printf -v v '%03d' 7; echo $v
### builtin: echo
echo -n a; echo -e 'x\ty\n'z; echo -E 'x\t'; echo -- -n; echo -nope
### builtin: read
printf 'a:b:c\n' | { IFS=: read -r x y; echo "$x $y"; }; read -r -n 3 z <<< abcdef; echo $z; read -r -d ';' w <<< 'p;q'; echo $w; read -ra arr <<< '1 2 3'; echo ${arr[2]}; read -r v < /dev/null; echo $?
### builtin: declare
declare -i n=2+3; echo $n; n+=4; echo $n; declare -r c=1; (c=2) 2>/dev/null; echo $?; declare -u U=abc; declare -l L=ABC; echo $U $L; declare -x E=1; declare -p n E
### builtin: getopts
f() { local OPTIND o; while getopts ':ab:' o "$@"; do case $o in a) echo a;; b) echo "b=$OPTARG";; :) echo "missing $OPTARG";; \?) echo "bad $OPTARG";; esac; done; shift $((OPTIND - 1)); echo "rest $*"; }; f -a -b x y; f -b; f -z -ab1 q
### builtin: eval, source, type
echo 'v=$1; echo "sourced $v"' > s; . ./s arg; echo $v; eval 'x=1; echo $((x+1))'; type -t echo if cat f; f() { :; }; type -t f; command -v f echo; source none 2>/dev/null; echo $?
### builtin: trap
trap 'echo bye' EXIT; trap 'echo err $?' ERR; false; (exit 2); trap - ERR; false; echo last
### builtin: traps are listed
trap 'echo "it is"' INT; trap -p INT; trap '' TERM; trap -p; trap - INT TERM; trap -p
### builtin: times and formats of printf
printf '%(%Y-%m-%d)T %s\n' 86400 x; printf '%3$s %1$s\n' a b c 2>/dev/null; printf '%.3s|%*d|%-*d|\n' abcdef 5 42 5 42; printf '%d %i\n' 0x10 \'A
### builtin: set options
set -e; f() { false; echo not reached; }; (f); echo $? ; if false; then :; fi; false || true; set +e; set -u; (echo $nope) 2>/dev/null; echo $?; set -x; : a b 2>/dev/null; set +x
### builtin: cd, pwd, pushd, popd
top=$PWD; mkdir -p a/b; cd a/b; echo ${PWD#$top}; cd ..; echo ${PWD#$top}; cd - >/dev/null; echo ${PWD#$top}; cd $top; pushd a >/dev/null; echo ${PWD#$top}; popd >/dev/null; echo "${PWD#$top}."; cd none 2>/dev/null; echo $?
### builtin: test of variables, unset, export
x=1; [[ -v x ]] && echo set; unset x; [[ -v x ]] || echo unset; export Y=2; bash -c 'echo $Y'; export -n Y; bash -c 'echo "${Y-gone}"'; readonly Z=3; unset Z 2>/dev/null; echo $?
### builtin: shift, exit status, colon, true
set -- 1 2 3; shift; echo $1; shift 5; echo $?; : ignored; echo $?; (exit 300); echo $?; bash -c 'exit -1'; echo $?
### subshell: isolation
x=1; (x=2; cd /; echo $x); echo $x; { x=3; }; echo $x; y=$(x=4; echo $x); echo $x $y; (trap 'echo sub' EXIT; exit 4); echo $?
### subshell: levels and process ids
echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL)); a=$$; b=$(echo $$); [ $a = $b ] && echo same
### jobs: wait for status
(exit 3) & wait $!; echo $?; (exit 0) & p=$!; (exit 4) & q=$!; wait $p; echo $?; wait $q; echo $?; sleep 0.01 & wait; echo $?
### commands: not found, not executable, syntax
nosuchcommand 2>/dev/null; echo $?; echo x > f; ./f 2>/dev/null; echo $?; bash -c 'if' 2>/dev/null; echo $?; bash -c 'echo $0 $1' name arg
### comments, line continuation, semicolons
echo a # comment
echo b \
c; echo 'd # not'; echo e#f; : '
multi'; echo g;
### assignment: appending, several, with commands
x=a; x+=b; echo $x; a=1 b=2 c=$a; echo $a$b$c; v=old; v=new echo $v; echo $v; d=$'x y'; e=$d; echo "$e"
### coprocess and pipes by name
coproc C { read x; echo "co $x"; }; echo hi >&${C[1]}; read -r y <&${C[0]}; echo $y
### program: word count with an associative array
declare -A n; for w in the cat the dog the cat; do (( n[$w]++ )); done; for w in "${!n[@]}"; do echo "${n[$w]} $w"; done | sort -rn
### program: a stack and a parser of options
stack=(); push() { stack+=("$1"); }; pop() { local -n out=$1; out=${stack[-1]}; unset 'stack[-1]'; }; push a; push 'b c'; pop x; pop y; echo "$x,$y,${#stack[@]}"
### program: sieve
n=30; declare -a c; for ((i=2; i*i<=n; i++)); do [[ ${c[i]} ]] && continue; for ((j=i*i; j<=n; j+=i)); do c[j]=1; done; done; for ((i=2; i<=n; i++)); do [[ ${c[i]} ]] || printf '%d ' $i; done; echo
### program: edits of files
printf 'b 2\na 1\nc 3\n' > f; sort f | while read -r k v; do echo "$k=$v"; done > g; sed -i 's/=/: /' g; grep -c : g; awk -F': ' '{s+=$2} END {print s}' g; cut -d: -f1 g | tr '\n' ' '; wc -l < g; head -1 g; tail -n +3 g
### program: find, xargs and tests
mkdir -p src/x; echo a > src/a.c; echo bb > src/x/b.c; echo c > src/c.h; find src -name '*.c' | sort | xargs cat; find src -type f -exec basename {} \; | sort; find src -type d | wc -l; find . -name '*.h' -print0 | xargs -0 -n1 echo
