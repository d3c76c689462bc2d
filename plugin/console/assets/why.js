// Why a Service has an address, or would be refused: the answers of `kubectl clusterip why`.
import { h, show } from './dom.js'

class Why extends HTMLElement {
  static title = 'Why'
  static path = rest => rest ? 'why?subject=' + encodeURIComponent(rest) : undefined

  connectedCallback() {
    const input = h('input', { name: 'subject', required: true, autocomplete: 'off', spellcheck: 'false', placeholder: 'service/shop/web', 'data-key': 'subject' })
    this.input = input
    this.result = h('pre', { tabindex: 0, hidden: true })
    show(this, h('h2', {}, 'Why'), h('form', { onsubmit: e => { e.preventDefault(); location.hash = 'why/' + encodeURIComponent(input.value.trim()) } },
      h('label', {}, 'service/NAMESPACE/NAME, namespace/NAME, range/NAME or an address', input), h('button', {}, 'Ask')), this.result)
  }

  set rest(value) {
    this.subject = value
    if (this.input && value && this.input.value !== value) this.input.value = value
  }

  get rest() { return this.subject }

  update(data) {
    this.result.hidden = false
    this.result.textContent = data.text
  }
}

customElements.define('clusterip-why', Why)
