import type { ConsoleSettings } from './settings.ts';

/** Reads the settings that the service wrote into the head of the page. */
export function readSettings(page: Document): ConsoleSettings {
  const content = page.querySelector<HTMLMetaElement>('meta[name="console-settings"]')?.content ?? '';
  return JSON.parse(content) as ConsoleSettings; // written by the service that served this page
}
