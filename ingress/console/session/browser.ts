import type { Surroundings } from './session.ts';

/** The session's surroundings in a real browser. */
export const browser: Surroundings = {
  storage: window.sessionStorage,
  address: () => new URL(window.location.href),
  replaceAddress: (url) => window.history.replaceState(null, '', url),
  leaveFor: (url) => window.location.assign(url),
  postTo,
  later(run, ms) {
    const timer = window.setTimeout(run, ms);
    return () => window.clearTimeout(timer);
  },
};

/** A form, so that what is sent stands in no address. */
function postTo(url: string, fields: Record<string, string>): void {
  const form = document.createElement('form');
  form.method = 'post';
  form.action = url;
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement('input');
    input.type = 'hidden';
    input.name = name;
    input.value = value;
    form.append(input);
  }
  document.body.append(form);
  form.submit();
}
