#!/bin/sh
# Install sagent from a checkout, a wheel or an address, with uv if it is there, else with pipx, else in a venv of its own:
#   sh distribution/install.sh [SOURCE] [EXTRAS]      for example: sh distribution/install.sh . mcp,web
set -eu
source=${1:-$(cd "$(dirname "$0")/.." && pwd)}
extras=${2:-}
case $source in
  *://*) wanted="sagent${extras:+[$extras]} @ $source" ;;
  *) wanted="$source${extras:+[$extras]}" ;;
esac
if command -v uv >/dev/null; then
  uv tool install --force "$wanted"
elif command -v pipx >/dev/null; then
  pipx install --force "$wanted"
else
  home=${XDG_DATA_HOME:-$HOME/.local/share}/sagent
  python3 -m venv "$home"
  "$home/bin/python" -m pip install --quiet --disable-pip-version-check "$wanted"
  mkdir -p "$HOME/.local/bin"
  ln -sf "$home/bin/sagent" "$HOME/.local/bin/sagent"
  case ":$PATH:" in
    *":$HOME/.local/bin:"*) ;;
    *) echo "Add $HOME/.local/bin to your PATH." ;;
  esac
fi
echo "Installed. Try: sagent demo"
