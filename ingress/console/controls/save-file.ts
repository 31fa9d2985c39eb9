/** Makes the browser save these bytes as a file, as for a download link. */
export function saveFile(bytes: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(bytes);
  link.download = name;
  link.click();
  // By then the browser holds a reference to the bytes.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
