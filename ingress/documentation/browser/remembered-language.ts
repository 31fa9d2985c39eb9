const key = 'documentation-language';

/** The language that the reader has chosen on any page, if the browser keeps it. */
export function rememberedLanguage(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null; // the browser does not allow it
  }
}

export function rememberLanguage(name: string): void {
  try {
    localStorage.setItem(key, name);
  } catch {
    // The choice is for this page only.
  }
}
