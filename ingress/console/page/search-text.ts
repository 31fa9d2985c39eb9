/** `svc_` and the characters that are shown of a key. */
const shownKey = /^svc_[0-9A-Za-z]{0,6}/;

/** What is searched for: of a key only what is shown of it, so that no full key is in an address or leaves the page. */
export function searchText(typed: string): string {
  const text = typed.trim();
  return shownKey.exec(text)?.[0] ?? text;
}
