type Attributes = Readonly<Record<string, string>>;

/** Makes an element; texts in it are never HTML. */
export function element<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Attributes,
  ...content: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

/** An icon of this path, 16 by 16, that screen readers ignore. */
function icon(path: string): SVGSVGElement {
  const namespace = 'http://www.w3.org/2000/svg';
  const drawn = document.createElementNS(namespace, 'svg');
  for (const [key, value] of Object.entries({
    viewBox: '0 0 16 16',
    width: '16',
    height: '16',
    'aria-hidden': 'true',
  })) {
    drawn.setAttribute(key, value);
  }
  const line = document.createElementNS(namespace, 'path');
  line.setAttribute('d', path);
  drawn.append(line);
  return drawn;
}

const copyIcon = 'M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z';
const doneIcon = 'm3 8.5 3.5 3.5L13 4.5';
const shownMs = 2_000;

/** Gives each block of code a button that copies it. */
export function addCopyButtons(): void {
  const status = element('p', { role: 'status', class: 'hidden-text' });
  document.body.append(status);
  for (const block of document.querySelectorAll('.code')) {
    const pre = block.querySelector('pre');
    if (pre !== null) block.append(copyButton(pre, status));
  }
}

function copyButton(pre: HTMLElement, status: HTMLElement): HTMLButtonElement {
  const name = `Copy ${pre.getAttribute('aria-label') ?? 'code'}`;
  const button = element(
    'button',
    { type: 'button', class: 'copy', 'aria-label': name, title: 'Copy' },
    icon(copyIcon),
  );
  button.addEventListener('click', async () => {
    const isCopied = await copy(pre.textContent);
    if (!isCopied) getSelection()?.selectAllChildren(pre);
    status.textContent = isCopied ? 'Copied.' : 'The browser does not allow this. The code is selected: copy it.';
    if (isCopied) button.replaceChildren(icon(doneIcon));
    setTimeout(() => {
      status.textContent = '';
      button.replaceChildren(icon(copyIcon));
    }, shownMs);
  });
  return button;
}

/** Adds a button that copies the page as Markdown, before the link to that Markdown. The link stays for browsers that allow no copying. */
export function addCopyPage(): void {
  const link = document.querySelector<HTMLAnchorElement>('.as-markdown');
  if (link === null) return;
  const label = element('span', {}, 'Copy page');
  const button = element('button', { type: 'button', class: 'copy-page' }, icon(copyIcon), label);
  const status = element('span', { role: 'status', class: 'copy-status' });
  button.addEventListener('click', async () => {
    const isCopied = await copyText(fetchText(link.href));
    status.textContent = isCopied ? 'Copied.' : 'It could not be copied. Copy it from here:';
    if (isCopied) setTimeout(() => status.replaceChildren(), shownMs);
    else link.focus();
  });
  link.before(button, ' ', status, ' ');
}

async function fetchText(address: string): Promise<Blob> {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`the page has the status ${response.status}`);
  return new Blob([await response.text()], { type: 'text/plain' });
}

/** The browser must be asked while the click is handled, so it gets the text as a promise. */
async function copyText(text: Promise<Blob>): Promise<boolean> {
  try {
    await navigator.clipboard.write([new ClipboardItem({ 'text/plain': text })]);
    return true;
  } catch {
    await text.catch(() => undefined); // its failure is reported by the answer
    return false;
  }
}

/** Browsers have no clipboard for pages without TLS, except on this machine. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
