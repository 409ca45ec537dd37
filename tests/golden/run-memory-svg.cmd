stepcast run dgx-h100-8 mixtral-8x7b --detail stage --memory-svg - -o /dev/null | grep -v '<path d="M.*fill="#'
