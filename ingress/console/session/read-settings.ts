import type { ConsoleSettings } from './settings.ts';

/** As the service wrote them into the page's head. */
export function readSettings(page: Document): ConsoleSettings {
  const content = page.querySelector<HTMLMetaElement>('meta[name="console-settings"]')?.content ?? '';
  return JSON.parse(content) as ConsoleSettings; // written by the service that served this page
}
