/** How the keys that open the palette are written on this platform. */
export function paletteKeys(platform: string): string {
  return isApple(platform) ? '⌘K' : 'Ctrl K';
}

/** Whether these keys open the palette: ⌘K on Apple's computers, where Ctrl+K edits text, and Ctrl+K on others. */
export function opensPalette({ key, ctrlKey, metaKey, altKey, shiftKey }: KeyboardEvent, platform: string): boolean {
  if (key.toLowerCase() !== 'k' || altKey || shiftKey) return false;
  return isApple(platform) ? metaKey && !ctrlKey : ctrlKey && !metaKey;
}

function isApple(platform: string): boolean {
  return /^(Mac|iP)/.test(platform);
}
