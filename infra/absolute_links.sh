#!/usr/bin/env bash
# Reads a page of this repository, and writes it with links that lead to the files of a version.
#   usage: infra/absolute_links.sh VERSION <README.md
set -euo pipefail
source=$(sed -n 's/^Source = "\(.*\)"$/\1/p' "$(dirname "$0")/../pyproject.toml")
sed -E "s#!\[([^]]*)\]\(([^:)]+)\)#![\1]($source/raw/v$1/\2)#g
    s#\]\(([^:)]+)\)#]($source/blob/v$1/\1)#g"
